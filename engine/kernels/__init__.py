"""Fused and packed kernels, each with a reference implementation in plain PyTorch."""
