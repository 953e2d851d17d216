"""The HTTP API: one module for each group of endpoints, request and response models, OpenAPI."""
