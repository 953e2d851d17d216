"""Cuts a recording and its transcript at a pause between two words, where the aligner of English speech finds both."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE
from server.alignment.aligner import english_aligner
from server.alignment.tokens import can_read
from server.references.cut import Cut
from server.references.speech_spans import speech_spans
from server.references.transcript import with_stop

_BEYOND = 2 * SAMPLE_RATE
"""Samples after the longest beginning that are aligned, too: words are certain only some time before the end."""
_SHORTEST_PAUSE_S = 0.15
_BEFORE_WORD_S = 0.03
"""How long before the next word the recording ends at the latest: the aligner's error is about as large."""
_INNER_MARKS = re.compile(r"[,;:–—-]+[\"'”’»)\]]*$")
"""Marks after a word inside a sentence."""


def cut_at_pause(samples: NDArray[np.float32], start: int, transcript: str, longest: int) -> Cut | None:
    """Return the longest beginning of at most ``longest`` samples that ends with a pause between two words, or None.

    None also if its words do not fit its speech, as in another language, or if it is shorter than half of ``longest``:
    a few words could fit any speech. Blocks for about 10 ms for each second of ``longest``.

    Args:
        samples: mono samples at 24 kHz.
        start: the first sample of speech.
        transcript: what is said in all of the recording.
        longest: from the first to the last sample of speech.
    """
    if not can_read(transcript):
        return None
    beginning = (np.clip(samples[: start + longest + _BEYOND], -1.0, 1.0) * 32767).astype(np.int16)
    aligner, text_end, ends = english_aligner(), 0, []
    for word, following in pairwise(aligner.align(beginning, transcript, complete=False)):
        text_end = transcript.index(word.word, text_end) + len(word.word)
        if following.start - word.end >= _SHORTEST_PAUSE_S and word.end * SAMPLE_RATE <= start + longest:
            middle, end = (word.end + following.start) / 2, following.start - _BEFORE_WORD_S
            ends.append((text_end, round(middle * SAMPLE_RATE), round(end * SAMPLE_RATE)))
    if not ends:
        return None
    text_end, sample, end_sample = ends[-1]
    text = with_stop(_INNER_MARKS.sub("", transcript[:text_end]))
    if sample - start < longest / 2 or aligner.fit(beginning[:sample], text).faults:
        return None
    return Cut(speech_spans(samples[:sample]), text, end_sample)
