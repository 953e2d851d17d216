"""Fused GPU kernels that sample a frame's codes in few launches, instead of plain PyTorch.

``reference`` is the reference implementation. ``persistent`` runs one launch per frame, for small batches. ``triton``
runs fused Triton launches and cuBLAS for larger batches, and one launch that samples codebook 0. ``dispatch`` chooses
the kernels.
"""
