"""Checkpoint folders: configuration, layout, tensors, checksums."""
