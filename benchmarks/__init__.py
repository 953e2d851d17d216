"""Benchmarks: every measured figure in the documentation is printed by one of these modules."""
