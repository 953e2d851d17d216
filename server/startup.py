"""Engine startup: the timeout and the warning that the server and ``sonant say`` share."""

from __future__ import annotations

UNTRAINED = "this checkpoint is untrained: its weights are random and its speech is noise"
START_SECONDS = 3600.0
"""Timeout for engine startup, which may include the download of a checkpoint."""
