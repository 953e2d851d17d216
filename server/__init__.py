"""The HTTP server and the command line: requests, audio encoding, voices, telemetry. Never imports torch."""
