"""Fused and packed kernels, each with its plain torch twin."""
