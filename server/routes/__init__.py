"""One file of endpoints each."""
