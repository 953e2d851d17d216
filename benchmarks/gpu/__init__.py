"""The engine on a GPU: steps, kernels, errors, and everything in one run."""
