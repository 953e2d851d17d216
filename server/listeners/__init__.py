"""Listeners for protocols beside HTTP: their settings, their sockets, and how the application starts and stops them."""
