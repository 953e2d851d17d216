"""The HTTP server and the command line: requests, bytes, voices. Never imports torch."""
