"""The ``sonant`` command line, one module for each command."""
