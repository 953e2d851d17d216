"""Voices: built-in speakers, and on which stream of a GPU recordings become some."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.checkpoint import open_checkpoint
from engine.errors import RequestError
from engine.messages import EncodeRequest
from engine.reference_encoder import ReferenceEncoder
from engine.untrained import write_checkpoint


def test_a_speaker_is_its_row_of_the_codec_embedding(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "pocket", "pocket")
    checkpoint = open_checkpoint(str(tmp_path / "pocket"))
    encoder = ReferenceEncoder(checkpoint, torch.device("cpu"))
    table = checkpoint.tensors("talker.model.")["codec_embedding.weight"].float().numpy()
    for name, row in checkpoint.model.talker.speakers.items():
        voice = encoder.speaker(name)
        assert np.array_equal(voice.embedding, table[row])
        assert voice.codes is None
    with pytest.raises(RequestError, match="nobody"):
        encoder.speaker("nobody")


def test_whatever_encodes_does_so_on_the_encoders_own_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path / "base", "0b6-base")
    encoder = ReferenceEncoder(open_checkpoint(str(tmp_path / "base")), torch.device("cpu"))
    current: list[object] = [None]
    seen = []

    @contextmanager
    def on(stream: object) -> Iterator[None]:
        current.append(stream)
        yield
        current.pop()

    def encoded(samples: torch.Tensor) -> torch.Tensor:
        seen.append((current[-1], len(samples)))
        return torch.zeros(8)

    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(encoder, "_stream", "its own")
    monkeypatch.setattr(encoder, "_speaker", encoded)
    monkeypatch.setattr(encoder, "_speech", encoded)
    encoder.warm_up()
    encoder.encode(EncodeRequest(np.zeros(24_000, np.float32), codes=True))
    assert seen == [("its own", 30 * 24_000)] * 2 + [("its own", 24_000)] * 2
