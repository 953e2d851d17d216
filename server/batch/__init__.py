"""Batch synthesis: several speech requests in one HTTP request."""
