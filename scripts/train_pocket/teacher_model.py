"""Kokoro-82M as the teacher: batched synthesis with the modules of the package ``kokoro``.

The package synthesizes one utterance per call. Here the text side runs on padded batches, which its masks support, and
the decoder on utterances of equal length: its instance norms span the whole length, so padding would change the audio.
"""

from __future__ import annotations

import io
import json
import sys
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from torch.nn.utils import remove_weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

FRAME = 600
"""Samples per duration frame: 25 ms at 24 kHz."""
_LENGTH_STEP = 8
"""Lengths are rounded up to a multiple of this many frames with silence, so that there are fewer of them."""
_TEXT_BATCH = 32
_AUDIO_BATCH = 16
_AUDIO_FRAMES = 2400
"""Maximum frames of a decoder batch: a minute of audio, about a gigabyte of activations."""
_SHORT = 24
"""Maximum symbols of a short utterance, whose last sound is limited to ``_LAST_FRAMES``."""
_LAST_FRAMES = 8
"""200 ms. The model draws out the last sound of short texts, which is then heard as another word: "welcome it"."""
_SILENT_MARKS = ' ;:,.!?—…"()“”'
_VOICED_HZ = 10.0
"""Above this predicted frequency the decoder's source is voiced."""
_PROSODY = 128
"""Index at which the second half of a style vector starts, which is for the prosody predictor."""
_CONFIG: dict[str, Any] = {
    "istftnet": {
        "upsample_kernel_sizes": [20, 12],
        "upsample_rates": [10, 6],
        "gen_istft_hop_size": 5,
        "gen_istft_n_fft": 20,
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "resblock_kernel_sizes": [3, 7, 11],
        "upsample_initial_channel": 512,
    },
    "dim_in": 64,
    "dropout": 0.2,
    "hidden_dim": 512,
    "max_conv_dim": 512,
    "max_dur": 50,
    "multispeaker": True,
    "n_layer": 3,
    "n_mels": 80,
    "n_token": 178,
    "style_dim": 128,
    "text_encoder_kernel_size": 5,
    "plbert": {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
        "max_position_embeddings": 512,
        "num_hidden_layers": 12,
        "dropout": 0.1,
    },
}
"""The config.json of Kokoro-82M v1.0 without its vocabulary."""


@dataclass(frozen=True, slots=True)
class TeacherInput:
    """An utterance to synthesize. symbols: indices in the teacher's vocabulary. style: [256].

    pitch: factor of the fundamental frequency. pitch_range: factor of its deviation, in octaves, from its mean.
    """

    symbols: list[int]
    style: npt.NDArray[np.float32]
    speed: float
    pitch: float = 1.0
    pitch_range: float = 1.0


@dataclass(frozen=True, slots=True)
class Speech:
    """A synthesized utterance.

    samples: [n] at 24 kHz. durations: [symbols + 2], frames of start, each symbol and end; after a change of the voice
    they may be fractions. Their sum is n / 600.
    """

    samples: npt.NDArray[np.float32]
    durations: npt.NDArray[np.int64] | npt.NDArray[np.float64]


class Teacher:
    """The model on ``device``."""

    def __init__(self, folder: Path, device: str) -> None:
        """Read vocab.json and w*.safetensors in ``folder``, which may also contain the package.

        Raises ValueError when the weights are of another model.
        """
        self.vocabulary: dict[str, int] = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        self._device = torch.device(device)
        self._model = _model(folder, self.vocabulary).to(self._device).eval()

    @torch.no_grad()
    def synthesize(self, inputs: Sequence[TeacherInput]) -> Iterator[tuple[list[int], list[Speech]]]:
        """Yield (indices into ``inputs``, their speech) in batches of equal length until all are synthesized."""
        by_length = sorted(range(len(inputs)), key=lambda index: len(inputs[index].symbols))
        encoded_inputs: dict[int, _Encoded] = {}
        for start in range(0, len(inputs), _TEXT_BATCH):
            batch = by_length[start : start + _TEXT_BATCH]
            encoded_inputs.update(zip(batch, self._predict_durations([inputs[index] for index in batch]), strict=True))
        for batch in _equal_lengths(encoded_inputs):
            yield batch, self._decode([encoded_inputs[index] for index in batch])

    def _predict_durations(self, inputs: Sequence[TeacherInput]) -> list[_Encoded]:
        lengths = torch.tensor([len(item.symbols) + 2 for item in inputs])
        ids = torch.zeros((len(inputs), int(lengths.max())), dtype=torch.long)
        for row, item in zip(ids, inputs, strict=True):
            row[1 : len(item.symbols) + 1] = torch.tensor(item.symbols)
        padding = (torch.arange(ids.shape[1]) >= lengths[:, None]).to(self._device)
        style = torch.from_numpy(np.stack([item.style for item in inputs])).to(self._device)
        model, ids = self._model, ids.to(self._device)
        encoded = model.bert_encoder(model.bert(ids, attention_mask=(~padding).int())).transpose(1, 2)
        prosody = model.predictor.text_encoder(encoded, style[:, _PROSODY:], lengths, padding)
        packed = pack_padded_sequence(prosody, lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(model.predictor.lstm(packed)[0], batch_first=True)
        speed = torch.tensor([item.speed for item in inputs], device=self._device)[:, None]
        predicted = torch.sigmoid(model.predictor.duration_proj(hidden)).sum(-1) / speed
        frames = predicted.round().clamp(min=1).long().cpu().numpy()
        for row, item in zip(frames, inputs, strict=True):
            limit_last_sound(row, item.symbols, {self.vocabulary[mark] for mark in _SILENT_MARKS})
        text = model.text_encoder(ids, lengths, padding).transpose(1, 2)
        return [
            _Encoded(_round_up(frames[row, :length]), prosody[row], text[row], style[row], inputs[row])
            for row, length in enumerate(lengths.tolist())
        ]

    def _decode(self, batch: Sequence[_Encoded]) -> list[Speech]:
        repeats = [np.repeat(np.arange(len(item.durations)), item.durations) for item in batch]
        index = [torch.from_numpy(rows).to(self._device) for rows in repeats]
        prosody = torch.stack([item.prosody[rows] for item, rows in zip(batch, index, strict=True)]).transpose(1, 2)
        text = torch.stack([item.text[rows] for item, rows in zip(batch, index, strict=True)]).transpose(1, 2)
        style = torch.stack([item.style for item in batch])
        pitch, energy = self._model.predictor.F0Ntrain(prosody, style[:, _PROSODY:])
        pitch = _change_pitch(pitch, [item.source for item in batch])
        audio = self._model.decoder(text, pitch, energy, style[:, :_PROSODY])
        samples = audio.reshape(len(batch), -1).float().cpu().numpy()
        return [Speech(row, item.durations) for row, item in zip(samples, batch, strict=True)]


@dataclass(frozen=True, slots=True)
class _Encoded:
    """An encoded text. durations: int64 [symbols + 2]. prosody, text: [>= symbols + 2, width]. style: [256]."""

    durations: npt.NDArray[np.int64]
    prosody: torch.Tensor
    text: torch.Tensor
    style: torch.Tensor
    source: TeacherInput


def _change_pitch(pitch: torch.Tensor, inputs: Sequence[TeacherInput]) -> torch.Tensor:
    """Return the pitch [batch, n] in Hz with the factors of the inputs. Unvoiced frames stay unchanged."""
    factors = torch.tensor([[item.pitch, item.pitch_range] for item in inputs], device=pitch.device)
    voiced = pitch > _VOICED_HZ
    octaves = pitch.clamp(min=_VOICED_HZ).log2()
    mean = (octaves * voiced).sum(1, keepdim=True) / voiced.sum(1, keepdim=True).clamp(min=1)
    changed = ((octaves - mean) * factors[:, 1:] + mean).exp2() * factors[:, :1]
    return torch.where(voiced, changed, pitch)


def limit_last_sound(frames: npt.NDArray[np.int64], symbols: Sequence[int], silent: Container[int]) -> None:
    """Limit the duration of the last sound of a short utterance, in place.

    frames: durations of start, each symbol and end. silent: symbols that are no sounds.
    """
    last = max((index for index, symbol in enumerate(symbols) if symbol not in silent), default=None)
    if last is not None and len(symbols) <= _SHORT:
        frames[last + 1] = min(frames[last + 1], _LAST_FRAMES)


def _round_up(durations: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    rounded = durations.copy()
    rounded[-1] += -int(durations.sum()) % _LENGTH_STEP
    return rounded


def _equal_lengths(encoded_inputs: dict[int, _Encoded]) -> list[list[int]]:
    """Return indices in batches of equal length, in random order, so that a time limit drops no certain lengths."""
    by_length_frames: defaultdict[int, list[int]] = defaultdict(list)
    for index, item in encoded_inputs.items():
        by_length_frames[int(item.durations.sum())].append(index)
    batches = []
    for frames, indices in sorted(by_length_frames.items()):
        size = max(1, min(_AUDIO_BATCH, _AUDIO_FRAMES // frames))
        batches += [indices[start : start + size] for start in range(0, len(indices), size)]
    Random(len(batches)).shuffle(batches)
    return batches


def _model(folder: Path, vocabulary: dict[str, int]) -> Any:
    sys.path.append(str(folder))
    empty = io.BytesIO()
    torch.save({}, empty)
    empty.seek(0)
    model = build(vocabulary, empty)
    files = sorted(folder.glob("w*.safetensors"))
    weights = {name: tensor.float() for file in files for name, tensor in load_file(file).items()}
    mismatch = model.load_state_dict(weights, strict=False)
    missing = [name for name in mismatch.missing_keys if ".norm" not in name and "pooler" not in name]
    if missing or mismatch.unexpected_keys:
        raise ValueError(
            f"the teacher's weights in {folder} lack {missing[:3]} and have {mismatch.unexpected_keys[:3]}"
        )
    return model


def build(vocabulary: dict[str, int], checkpoint: Path | BinaryIO) -> Any:
    """Return the package's model with the weights of ``checkpoint`` (as published) and folded weight norms."""
    from kokoro.model import KModel  # its folder is known only at run time

    model = KModel(repo_id="local", config={**_CONFIG, "vocab": vocabulary}, model=checkpoint)
    for module in model.modules():
        if hasattr(module, "weight_g"):
            remove_weight_norm(module)
    return model
