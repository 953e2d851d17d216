"""A frame's codes in few launches on a GPU, in the place of plain torch.

``twin`` defines the results. ``persistent`` is one launch a frame, for small batches; ``triton_codes`` is fused Triton
launches around cuBLAS, for the others; ``first_codes`` draws codebook 0. ``choice`` says which of them runs.
"""
