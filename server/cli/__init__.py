"""The ``sonant`` command line: one module per command."""
