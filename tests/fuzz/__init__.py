"""Everything a client sends, spoiled: ``python -m tests.fuzz --minutes 10``, and a short run in ``make test``."""
