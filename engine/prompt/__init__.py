"""Builds the talker's prompt from text. Imports no torch."""
