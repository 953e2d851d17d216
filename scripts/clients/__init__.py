"""Runs real client packages against a server: ``make test-clients``."""
