"""Long text and several speakers: pieces that are synthesized one after the other and returned as one utterance."""
