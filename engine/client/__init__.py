"""The engine's client: everything that other processes use. Imports no torch."""
