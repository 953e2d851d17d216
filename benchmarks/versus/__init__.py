"""Comparison with the official reference implementation."""
