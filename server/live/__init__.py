"""Live speech over a WebSocket: the client sends text as it is written and receives audio as it is generated."""
