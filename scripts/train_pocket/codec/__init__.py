"""The codec: speech encoder, split residual quantizer, Code2Wav, and what trains them."""
