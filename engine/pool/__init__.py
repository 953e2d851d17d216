"""Several engine processes of one model behind the Engine protocol: routing, failover, loading on demand. No torch."""
