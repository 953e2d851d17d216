"""Measures the speech of a checkpoint: word errors, predicted opinion scores and speaker similarity."""
