"""Moonshine base-en, an English speech recognizer, as ONNX (Jeffries et al. 2024, arXiv 2410.15608)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from scripts.judge.sound import JUDGE_RATE, Samples, max_tokens

_BEGIN, _END = 1, 2
_MAX_PIECE_S = 25
_MIN_PIECE_S = 0.25


class Moonshine:
    """Recognizes speech with greedy decoding, on one thread."""

    def __init__(self, folder: Path) -> None:
        self._encoder = _session(folder / "encoder_model.ort")
        self._decoder = _session(folder / "decoder_model_merged.ort")
        self._tokens = _read_tokens((folder / "tokenizer.bin").read_bytes())
        self._numbers = {token: number for number, token in enumerate(self._tokens) if token}
        self._longest = max(map(len, self._tokens))
        past = [entry for entry in self._decoder.get_inputs() if entry.name.startswith("past")]
        _, heads, _, width = past[0].shape
        self._empty = {entry.name: np.zeros((1, heads, 0, width), np.float32) for entry in past}
        self._cached = [entry.name for entry in self._decoder.get_outputs()][1:]

    def __call__(self, samples: Samples) -> str:
        """Return the words in samples [n] at 16 kHz. Long ones are split, because the model supports up to 30 s."""
        step = _MAX_PIECE_S * JUDGE_RATE
        pieces = [samples[start : start + step] for start in range(0, max(1, len(samples)), step)]
        return " ".join(self._recognize(piece) for piece in pieces)

    def preference(self, samples: Samples, right: str, wrong: str) -> float:
        """Return the log-likelihood ratio of two spellings of the words in samples [n] at 16 kHz, up to 25 s.

        That of the same spellings of silence is subtracted, so that the more usual spelling has no advantage.
        """
        silence = np.zeros_like(samples)
        return sum(
            sign * (self._log_likelihood(samples, text) - self._log_likelihood(silence, text))
            for sign, text in ((1.0, right), (-1.0, wrong))
        )

    def _log_likelihood(self, samples: Samples, text: str) -> float:
        states = self._encoder.run(None, {"input_values": samples[None].astype(np.float32)})[0]
        total, past = 0.0, dict(self._empty)
        tokens = [_BEGIN, *self._encode(text), _END]
        for step, (token, following) in enumerate(pairwise(tokens)):
            logits, past = self._step(token, states, past, step)
            total += float(logits[following] - np.logaddexp.reduce(logits))
        return total

    def _encode(self, text: str) -> list[int]:
        """Return tokens of the text, always the longest one that fits."""
        rest = ("\u2581" + text.replace(" ", "\u2581")).encode()
        tokens = []
        while rest:
            size = next(size for size in range(min(len(rest), self._longest), 0, -1) if rest[:size] in self._numbers)
            tokens.append(self._numbers[rest[:size]])
            rest = rest[size:]
        return tokens

    def _recognize(self, samples: Samples) -> str:
        missing = int(_MIN_PIECE_S * JUDGE_RATE) - len(samples)
        padded = np.pad(samples, (0, max(0, missing))).astype(np.float32)
        states = self._encoder.run(None, {"input_values": padded[None]})[0]
        words = b"".join(self._tokens[token] for token in self._decode(states, len(padded)) if token > _END)
        return words.decode("utf-8", "ignore").replace("\u2581", " ").strip()

    def _decode(self, states: NDArray[np.float32], samples: int) -> list[int]:
        tokens = [_BEGIN]
        past = dict(self._empty)
        for step in range(max_tokens(samples)):
            logits, past = self._step(tokens[-1], states, past, step)
            tokens.append(int(logits.argmax()))
            if tokens[-1] == _END:
                break
        return tokens[1:]

    def _step(
        self, token: int, states: NDArray[np.float32], past: dict[str, NDArray[np.float32]], step: int
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float32]]]:
        """Return the logits [tokens] after a token, and the new cache."""
        inputs = {
            "input_ids": np.array([[token]], np.int64),
            "encoder_hidden_states": states,
            "use_cache_branch": np.array([step > 0]),
        }
        logits, *present = self._decoder.run(None, inputs | past)
        fresh = {
            name.replace("present", "past_key_values"): value
            for name, value in zip(self._cached, present, strict=True)
            if step == 0 or "decoder" in name
        }
        return logits[0, -1], past | fresh


def _session(file: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _read_tokens(data: bytes) -> list[bytes]:
    """Parse the tokens. Each follows its length, which has one byte, or two from 128 on."""
    tokens, offset = [], 0
    while offset < len(data):
        length = data[offset]
        offset += 1
        if length >= 128:
            length += 128 * data[offset] - 128
            offset += 1
        tokens.append(data[offset : offset + length])
        offset += length
    return tokens
