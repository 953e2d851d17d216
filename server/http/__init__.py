"""HTTP connections: protocol limits, middleware, shutdown."""
