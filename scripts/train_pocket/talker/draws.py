"""How an utterance is asked for, drawn at random each time: voice, language, text layout, reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint.architecture import ModelArchitecture
from engine.prompt.tokenizer import TextTokenizer
from engine.protocol.request import SpeechRequest, TextLayout, Voice
from scripts.train_pocket.config import TalkerDraws
from scripts.train_pocket.talker.batches import LENGTHS
from scripts.train_pocket.talker.corpus import Corpus, Spoken
from scripts.train_pocket.talker.examples import Example, lay_out

_MARKS = ".!?"


@dataclass(frozen=True, slots=True)
class Drawing:
    """Draws examples. xvector_scale: from x-vectors of unit size to embedding rows; english: the language's name."""

    corpus: Corpus
    model: ModelArchitecture
    tokenizer: TextTokenizer
    shares: TalkerDraws
    xvector_scale: float
    english: str = "english"

    def example(self, spoken: Spoken, random: np.random.Generator) -> Example:
        """One way to ask for ``spoken``, at times followed by others of its speaker."""
        text, codes = spoken.text, spoken.codes
        while random.random() < self.shares.joined and len(codes) < LENGTHS[-1] // 2:
            more = self._another(spoken, random)
            text, codes = f"{text} {more.text}", np.concatenate((codes, more.codes))
        if random.random() < self.shares.altered_text:
            text = _altered(text, random)
        request = self._request(text, spoken, random)
        return lay_out(request, codes, self.model, self.tokenizer)

    def _request(self, text: str, spoken: Spoken, random: np.random.Generator) -> SpeechRequest:
        layout, in_context = self._layout(random)
        language = self.english if random.random() < self.shares.english else "auto"
        named, vectors = spoken.speaker in self.model.talker.speakers, spoken.speaker in self.corpus.vectors
        if not vectors or (named and not in_context and random.random() < self.shares.by_id):
            return SpeechRequest(text, speaker=spoken.speaker, language=language, text_layout=layout)
        reference = self._another(spoken, random) if in_context else None
        if reference is None or len(reference.codes) > self.shares.reference_frames:
            voice = Voice(self._xvector(spoken, random))
        else:
            voice = Voice(self._xvector(spoken, random), reference.codes.astype(np.int64), reference.text)
        return SpeechRequest(text, voice=voice, language=language, text_layout=layout)

    def _layout(self, random: np.random.Generator) -> tuple[TextLayout, bool]:
        """The text layout, and whether the voice is to be given in context."""
        shares = self.shares.layouts
        drawn = random.random() * (shares.full + shares.streaming + shares.in_context)
        if drawn < shares.in_context:
            return ("full" if random.random() < 0.5 else "streaming"), True
        return ("full" if drawn < shares.in_context + shares.full else "streaming"), False

    def _another(self, spoken: Spoken, random: np.random.Generator) -> Spoken:
        """An utterance of the same speaker to train on: another one, if there is one."""
        numbers = self.corpus.by_speaker.get(spoken.speaker)
        if numbers is None:
            return spoken
        drawn = self.corpus.trained[int(random.choice(numbers))]
        return drawn if drawn.id != spoken.id else self.corpus.trained[int(random.choice(numbers))]

    def _xvector(self, spoken: Spoken, random: np.random.Generator) -> NDArray[np.float32]:
        """One of the speaker's, of another utterance where there is one, with noise."""
        ids, vectors = self.corpus.vectors[spoken.speaker]
        others = vectors[ids != spoken.id]
        pool = others if len(others) else vectors
        vector = pool[int(random.integers(len(pool)))]
        noise = random.standard_normal(len(vector), dtype=np.float32) * self.shares.xvector_noise
        size = np.float32(np.sqrt(np.mean(vector * vector)))
        scaled: NDArray[np.float32] = (vector + noise * size) * np.float32(self.xvector_scale)
        return scaled


def _altered(text: str, random: np.random.Generator) -> str:
    """Lower-case, or without its last mark, as people type."""
    return text.lower() if random.random() < 0.5 else text.rstrip(_MARKS) or text
