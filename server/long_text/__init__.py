"""Long text: split into pieces that are synthesized one after the other and returned as one utterance."""
