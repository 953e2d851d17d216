"""Requests, answers and messages between the server and the engine process. Imports no torch."""
