"""Sonant as an application of Ray Serve. Only this package imports ray: ``pip install 'sonant[ray]'``."""
