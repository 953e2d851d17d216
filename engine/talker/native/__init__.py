"""The talker in plain PyTorch."""
