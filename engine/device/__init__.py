"""Devices: selection, memory, streams."""
