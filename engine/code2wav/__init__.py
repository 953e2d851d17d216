"""Stage 2 (Code2Wav): decodes codec frames to audio samples."""
