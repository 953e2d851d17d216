"""Text to the talker's prompt. Imports no torch."""
