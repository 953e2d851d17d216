"""A separate GPU for the Code2Wav process."""

import pytest
from pydantic import ValidationError

from engine.config import Code2WavConfig
from engine.errors import SetupError
from engine.system.gpus import with_gpu


def test_the_process_sees_only_that_gpu():
    assert with_gpu(1, {"HOME": "/"}, "gpu") == {"HOME": "/", "CUDA_VISIBLE_DEVICES": "1"}


def test_the_index_counts_visible_gpus():
    assert with_gpu(1, {"CUDA_VISIBLE_DEVICES": "3, GPU-5f"}, "gpu")["CUDA_VISIBLE_DEVICES"] == "GPU-5f"


def test_refuses_a_gpu_that_is_not_visible():
    with pytest.raises(SetupError, match=r"code2wav\.gpu must be less than 2, .* in CUDA_VISIBLE_DEVICES, got 2"):
        with_gpu(2, {"CUDA_VISIBLE_DEVICES": "0,1"}, "code2wav.gpu")


def test_a_thread_cannot_have_another_gpu():
    with pytest.raises(ValidationError, match="needs placement: process"):
        Code2WavConfig(gpu=1)
