"""Logs, metrics, traces and outcomes of requests."""
