"""Live text over a WebSocket: text in as it is written, speech out as it is made."""
