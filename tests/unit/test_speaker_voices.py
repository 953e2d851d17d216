"""Built-in speakers as voices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.checkpoint import open_checkpoint
from engine.errors import RequestError
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
