"""A whole server: load, capacity, adversarial clients, recovery."""
