"""The engine's client, which the server process uses. Imports no torch."""
