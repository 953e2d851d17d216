"""Samples training examples: an utterance with a random voice, language, text layout and reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint.architecture import ModelArchitecture
from engine.prompt.tokenizer import TextTokenizer
from engine.protocol.request import SpeechRequest, TextLayout, Voice
from scripts.train_pocket.config import TalkerDraws
from scripts.train_pocket.talker.batches import LENGTHS
from scripts.train_pocket.talker.corpus import Corpus, TrainingUtterance
from scripts.train_pocket.talker.examples import Example, build_example

_MARKS = ".!?"


@dataclass(frozen=True, slots=True)
class ExampleSampler:
    """Samples examples. xvector_scale: factor from unit RMS to embedding rows. english: name of the language."""

    corpus: Corpus
    model: ModelArchitecture
    tokenizer: TextTokenizer
    shares: TalkerDraws
    xvector_scale: float
    english: str = "english"

    def example(self, utterance: TrainingUtterance, random: np.random.Generator) -> Example:
        """Return a random example of ``utterance``, sometimes followed by others of its speaker."""
        text, codes = utterance.text, utterance.codes
        while random.random() < self.shares.joined and len(codes) < LENGTHS[-1] // 2:
            following = self._another(utterance, random)
            text, codes = f"{text} {following.text}", np.concatenate((codes, following.codes))
        if random.random() < self.shares.altered_text:
            text = _alter_text(text, random)
        request = self._request(text, utterance, random)
        return build_example(request, codes, self.model, self.tokenizer)

    def _request(self, text: str, utterance: TrainingUtterance, random: np.random.Generator) -> SpeechRequest:
        layout, in_context = self._layout(random)
        language = self.english if random.random() < self.shares.english else "auto"
        named, vectors = utterance.speaker in self.model.talker.speakers, utterance.speaker in self.corpus.vectors
        if not vectors or (named and not in_context and random.random() < self.shares.by_id):
            return SpeechRequest(text, speaker=utterance.speaker, language=language, text_layout=layout)
        reference = self._another(utterance, random) if in_context else None
        if reference is None or len(reference.codes) > self.shares.reference_frames:
            voice = Voice(self._xvector(utterance, random))
        else:
            voice = Voice(self._xvector(utterance, random), reference.codes.astype(np.int64), reference.text)
        return SpeechRequest(text, voice=voice, language=language, text_layout=layout)

    def _layout(self, random: np.random.Generator) -> tuple[TextLayout, bool]:
        """Return a random text layout, and whether the voice is cloned in context."""
        shares = self.shares.layouts
        drawn = random.random() * (shares.full + shares.streaming + shares.in_context)
        if drawn < shares.in_context:
            return ("full" if random.random() < 0.5 else "streaming"), True
        return ("full" if drawn < shares.in_context + shares.full else "streaming"), False

    def _another(self, utterance: TrainingUtterance, random: np.random.Generator) -> TrainingUtterance:
        """Return a training utterance of the same speaker, preferably another one."""
        numbers = self.corpus.by_speaker.get(utterance.speaker)
        if numbers is None:
            return utterance
        drawn = self.corpus.trained[int(random.choice(numbers))]
        return drawn if drawn.id != utterance.id else self.corpus.trained[int(random.choice(numbers))]

    def _xvector(self, utterance: TrainingUtterance, random: np.random.Generator) -> NDArray[np.float32]:
        """Return an x-vector of the speaker with noise, preferably of another utterance."""
        ids, vectors = self.corpus.vectors[utterance.speaker]
        others = vectors[ids != utterance.id]
        pool = others if len(others) else vectors
        vector = pool[int(random.integers(len(pool)))]
        noise = random.standard_normal(len(vector), dtype=np.float32) * self.shares.xvector_noise
        size = np.float32(np.sqrt(np.mean(vector * vector)))
        scaled: NDArray[np.float32] = (vector + noise * size) * np.float32(self.xvector_scale)
        return scaled


def _alter_text(text: str, random: np.random.Generator) -> str:
    """Return the text in lower case or without its last mark, as people may type it."""
    return text.lower() if random.random() < 0.5 else text.rstrip(_MARKS) or text
