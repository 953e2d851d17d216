"""Audio output: filters, streaming encoders, and the pipeline that applies them."""
