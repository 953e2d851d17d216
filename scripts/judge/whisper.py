"""Whisper base, a speech recognizer (Radford et al. 2022, arXiv 2212.04356), with faster-whisper."""

from __future__ import annotations

from pathlib import Path

from faster_whisper import WhisperModel

from scripts.judge.sound import Samples, max_tokens


class Whisper:
    """Recognizes speech with beam search in int8, on one thread. The result is deterministic."""

    def __init__(self, folder: Path) -> None:
        self._model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)

    def __call__(self, samples: Samples) -> str:
        """Return the English words in samples [n] at 16 kHz."""
        segments, _ = self._model.transcribe(
            samples,
            language="en",
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
            max_new_tokens=max_tokens(len(samples)),
        )
        return " ".join(segment.text.strip() for segment in segments)
