"""Long text: cut into pieces that are spoken one after the other, as one utterance."""
