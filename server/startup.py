"""What the server and ``sonant say`` both wait for, and say, when an engine starts."""

from __future__ import annotations

UNTRAINED = "this checkpoint is untrained: its weights are random, and what it says is noise"
START_SECONDS = 3600.0
"""A checkpoint may have to be downloaded first."""
