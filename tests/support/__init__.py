"""What tests, benchmarks and training share and production never imports."""
