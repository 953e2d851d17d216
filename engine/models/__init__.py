"""The five networks of a Qwen3-TTS checkpoint, in PyTorch."""
