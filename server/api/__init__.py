"""The HTTP API: one module for each group of endpoints, the request and response models, and OpenAPI."""
