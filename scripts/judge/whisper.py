"""Whisper base, a recogniser (Radford et al. 2022, arXiv 2212.04356), through faster-whisper."""

from __future__ import annotations

from pathlib import Path

from faster_whisper import WhisperModel

from scripts.judge.sound import Samples, most_tokens


class Whisper:
    """Beam search on one thread, int8; never sampled, so that the same recording gives the same words."""

    def __init__(self, folder: Path) -> None:
        self._model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)

    def __call__(self, samples: Samples) -> str:
        """What is said, in English, in samples [n] at 16 kHz."""
        segments, _ = self._model.transcribe(
            samples,
            language="en",
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
            max_new_tokens=most_tokens(len(samples)),
        )
        return " ".join(segment.text.strip() for segment in segments)
