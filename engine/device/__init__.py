"""Devices: selection, memory, device streams."""
