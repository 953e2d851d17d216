"""Fuzzes everything that a client sends: ``python -m tests.fuzz --minutes 10``, and a short run in ``make test``."""
