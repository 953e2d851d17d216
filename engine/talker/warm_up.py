"""Speaking before anybody asks, so that no listener waits for what is made on first use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.prompt import NOTHING, Prompt
from engine.talker.base import Sampling, Talker

_ROWS = 16
_FRAMES = 3


def warm_up(talker: Talker, *, text_pad: int, sampling: Sampling) -> None:
    """Run ``talker`` through a prompt of padding and a few frames, drawn as ``sampling`` says. It must be idle."""
    prompt = Prompt(
        text=np.full(_ROWS, text_pad, np.int64),
        codec=np.full(_ROWS, NOTHING, np.int64),
        embedding=None,
        embedding_row=NOTHING,
        codes=None,
        codes_row=NOTHING,
        trailing=[],
        input_tokens=0,
    )
    talker.admit(0, prompt, replace(sampling, max_new_tokens=_FRAMES + 1))
    while talker.runnable(()):
        talker.step(())
