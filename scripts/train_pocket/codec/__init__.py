"""The codec and its training: speech encoder, split residual quantizer, Code2Wav."""
