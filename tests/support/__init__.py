"""Code shared by tests, benchmarks and training. Production code never imports it."""
