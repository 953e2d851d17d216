"""Voices from reference recordings."""
