"""Stage 2: codec frames to samples."""
