"""API keys: the key file, the keys that are valid now, and what each may use."""
