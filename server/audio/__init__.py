"""Samples to bytes."""
