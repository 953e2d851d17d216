"""Hands the first frame of an utterance from the talker to Code2Wav on the GPU, before the host has its codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from engine.device.streams import Event


class FirstFrame(NamedTuple):
    """The first frame of an utterance, which a step in flight samples.

    stream: of the utterance. codes: int16 [n, 16] on the device, of which ``row`` is the frame's: valid from ``ready``,
    an event in the CUDA stream of the step, until the next step overwrites them.
    """

    stream: int
    codes: Tensor
    row: int
    ready: Event


@dataclass(slots=True)
class FirstFrameSlot:
    """Holds the latest first frame. The talker's thread sets it, and Code2Wav's thread reads and clears it.

    A frame may get lost or be read too late: Code2Wav then decodes the codes that arrive on the link.
    """

    frame: FirstFrame | None = None
