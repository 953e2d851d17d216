"""Built-in speaker voices, and the device stream in which recordings are encoded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from engine.checkpoint.folder import open_checkpoint
from engine.cloning import networks as reference_networks
from engine.cloning.encoder import ReferenceEncoder
from engine.device.streams import HostStream
from engine.errors import RequestError
from engine.protocol.messages import EncodeRequest
from tests.support.random_checkpoint import write_checkpoint


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


class DeviceStream(HostStream):
    """Records whether it is the current stream."""

    entered = False

    @contextmanager
    def context(self) -> Iterator[None]:
        self.entered = True
        yield
        self.entered = False


def test_everything_is_encoded_in_the_stream_of_the_encoder(
    checkpoints: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, seen = DeviceStream(), []
    monkeypatch.setattr(reference_networks, "HostStream", lambda: stream)

    class Network:
        architecture = SimpleNamespace(width=1)

        def __init__(self, *_: object, device: torch.device) -> None:
            seen.append(("loaded", stream.entered))

        def __call__(self, samples: torch.Tensor) -> torch.Tensor:
            seen.append(("alone", stream.entered))
            return torch.zeros(1)

        def batch(self, samples: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            seen.append(("together", stream.entered))
            return torch.zeros(1)

    monkeypatch.setattr(reference_networks, "SpeakerEncoder", Network)
    monkeypatch.setattr(reference_networks, "SpeechEncoder", Network)
    encoder = ReferenceEncoder(open_checkpoint(str(checkpoints["0b6-base"])), torch.device("cpu"))
    encoder.encode(EncodeRequest(np.zeros(24_000, np.float32), codes=True))
    encoder.capture()
    encoder.encode(EncodeRequest(np.ones(24_000, np.float32), codes=True))
    assert seen == [(event, True) for event in ("loaded", "alone", "together") for _ in range(2)]
