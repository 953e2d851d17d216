"""The engine on a CPU: parts, kernels, the pipeline, the shipped checkpoint."""
