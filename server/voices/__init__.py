"""Voices by name: the checkpoint's own, and those that clients have stored."""
