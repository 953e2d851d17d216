"""Samples training examples: an utterance with a random voice, language, text layout and reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint.architecture import ModelArchitecture
from engine.prompt.tokenizer import TextTokenizer
from engine.protocol.request import SpeechRequest, Voice
from engine.protocol.speech_profile import TextLayout
from scripts.train_pocket.config import TalkerDraws
from scripts.train_pocket.talker.corpus import Corpus, TrainingUtterance
from scripts.train_pocket.talker.examples import Example, build_example
from scripts.train_pocket.talker.robustness import corrupt
from scripts.train_pocket.word_phonemes import with_phonemes

_MARKS = ".!?"
_CANDIDATES = 12
"""Number of utterances from which a reference is put together."""
_PHONEME_WORDS = (0.1, 1.0)
"""Least and greatest share of words that are written as phonemes, in a text with phonemes."""
_FILLED = 0.75
"""Share of the intended length at which a reference is long enough."""


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
        text, words, codes = utterance.text, utterance.words, utterance.codes
        while random.random() < self.shares.joined:
            following = self._another(utterance, random)
            if len(codes) + len(following.codes) > self.shares.target_frames:
                break
            text, words = f"{text} {following.text}", f"{words} {following.words}"
            codes = np.concatenate((codes, following.codes))
        if random.random() < self.shares.altered_text:
            text = _alter_text(text, random)
        text = self._with_phonemes(text, words, random)
        request, is_clean = self._request(text, utterance, random)
        return build_example(request, codes, self.model, self.tokenizer, learn_reference=is_clean)

    def _request(
        self, text: str, utterance: TrainingUtterance, random: np.random.Generator
    ) -> tuple[SpeechRequest, bool]:
        """Return a random request, and whether its reference, if any, is as clean as speech to learn from."""
        layout, in_context = self._layout(random)
        language = self.english if random.random() < self.shares.english else "auto"
        named, vectors = utterance.speaker in self.model.talker.speakers, utterance.speaker in self.corpus.vectors
        if not vectors or (named and not in_context and random.random() < self.shares.by_id):
            return SpeechRequest(text, speaker=utterance.speaker, language=language, text_layout=layout), True
        is_degraded = in_context and random.random() < self.shares.degraded
        reference = self._reference(utterance, is_degraded, random) if in_context else None
        if reference is None:
            voice, is_clean = Voice(self._xvector(utterance, random)), True
        else:
            codes, transcript = reference
            is_corrupted = random.random() < self.shares.corrupted
            if is_corrupted:
                codes = self._corrupted(codes, random)
            voice = self._in_context(utterance, codes, transcript, random)
            is_clean = not (is_degraded or is_corrupted)
        return SpeechRequest(text, voice=voice, language=language, text_layout=layout), is_clean

    def _in_context(
        self, utterance: TrainingUtterance, codes: NDArray[np.int64], transcript: str, random: np.random.Generator
    ) -> Voice:
        """Return a voice with a reference, sometimes with the x-vector of another speaker."""
        if random.random() < self.shares.other_xvector:
            utterance = self.corpus.trained[int(random.integers(len(self.corpus.trained)))]
        if utterance.speaker not in self.corpus.vectors:
            return Voice(np.zeros(self.model.talker.transformer.hidden, np.float32), codes, transcript)
        return Voice(self._xvector(utterance, random), codes, transcript)

    def _corrupted(self, codes: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        other = self.corpus.trained[int(random.integers(len(self.corpus.trained)))]
        return corrupt(codes, other.codes, random)

    def _reference(
        self, utterance: TrainingUtterance, is_degraded: bool, random: np.random.Generator
    ) -> tuple[NDArray[np.int64], str] | None:
        """Return codes and transcript of one or more other utterances of the speaker; None if it has no fitting ones.

        The length is random: log-uniform between the two ``reference_frames``.
        """
        shortest, longest = self.shares.reference_frames
        length = int(np.exp(random.uniform(np.log(shortest), np.log(longest))))
        numbers = random.permutation(self.corpus.by_speaker.get(utterance.speaker, np.empty(0, np.int64)))
        candidates = [self.corpus.trained[number] for number in numbers[:_CANDIDATES].tolist()]
        candidates = [each for each in candidates if each.id != utterance.id]
        if is_degraded:
            candidates = [each for each in candidates if each.id in self.corpus.degraded]
        chosen: list[TrainingUtterance] = []
        frames = 0
        while candidates and frames < _FILLED * length:
            best = min(candidates, key=lambda each: abs(length - frames - len(each.codes)))
            candidates.remove(best)
            if frames + len(best.codes) <= longest:
                chosen.append(best)
                frames += len(best.codes)
        if not chosen:
            return None
        parts = [self.corpus.degraded[each.id] if is_degraded else each.codes for each in chosen]
        transcript = self._with_phonemes(
            " ".join(each.text for each in chosen), " ".join(each.words for each in chosen), random
        )
        return np.concatenate(parts).astype(np.int64), transcript

    def _with_phonemes(self, text: str, words: str, random: np.random.Generator) -> str:
        """Return ``text``, sometimes with phonemes instead of some words."""
        if random.random() >= self.shares.phonemes:
            return text
        return with_phonemes(text, words, random.uniform(*_PHONEME_WORDS), random)

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
