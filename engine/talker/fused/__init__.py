"""Fused GPU kernels that run the talker's layers and sample a frame's codes in few launches, instead of plain PyTorch.

``reference`` is the reference implementation of the code predictor. ``batched`` runs it in one launch per frame for up
to 256 rows, ``persistent`` with fp8 weights for up to 16 rows, and ``triton`` in fused Triton launches and cuBLAS
elsewhere; it also samples codebook 0. ``layers`` runs the talker's decoder layers in one launch for up to 16 rows, and
``layers_reference`` is its reference implementation. ``dispatch`` chooses the kernels.
"""
