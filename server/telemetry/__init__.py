"""Request logs, Prometheus metrics, OpenTelemetry traces and request outcomes."""
