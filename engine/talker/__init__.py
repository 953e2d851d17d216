"""Stage 1: text to codec frames."""
