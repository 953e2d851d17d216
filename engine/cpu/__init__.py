"""The choice of weights, precision and threads on a CPU."""
