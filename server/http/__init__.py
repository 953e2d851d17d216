"""HTTP and WebSocket connections: framing, limits, and what happens when a limit is reached."""
