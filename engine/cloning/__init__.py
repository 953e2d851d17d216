"""Voice cloning: reference recordings to voices."""
