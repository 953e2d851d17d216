"""Reading samples from responses, independent of how they are split into pieces."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile as sf

from server.bench.samples import Samples

QUIET = np.array([0, 100, -327, 327, 50], "<i2")


def feed(data: bytes, step: int, rate: int = 24_000) -> tuple[Samples, int]:
    samples = Samples(rate, audible=0.01)
    return samples, sum(samples.add(data[at : at + step]) for at in range(0, len(data), step))


def wav(samples: np.ndarray, rate: int, subtype: str = "PCM_16") -> bytes:
    file = io.BytesIO()
    sf.write(file, samples, rate, format="WAV", subtype=subtype)
    return file.getvalue()


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("loud", [328, -328, -32_768])
def test_finds_the_first_audible_sample(step: int, loud: int) -> None:
    data = np.concatenate([QUIET, np.array([loud, 0, 3000], "<i2")]).tobytes()
    samples, taken = feed(data, step)
    assert (samples.onset, taken) == (len(QUIET), len(data))


def test_silence_has_no_onset() -> None:
    assert feed(QUIET.tobytes(), 3)[0].onset is None


@pytest.mark.parametrize("step", [1, 5, 44, 1000])
def test_skips_the_header_of_a_wav_file(step: int) -> None:
    played = np.concatenate([QUIET, np.full(10, 9000, "<i2")])
    samples, taken = feed(wav(played, 16_000), step)
    assert (samples.rate, samples.onset, taken) == (16_000, len(QUIET), played.nbytes)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (wav(np.zeros((100, 2)), 24_000), "2 channels"),
        (wav(np.zeros(100), 24_000, "PCM_24"), "24 bits"),
        (b"RIFF\xff\xff\xff\xffWAVE" + b"JUNK\xff\xff\xff\x00", "without samples"),
    ],
    ids=["stereo", "24 bits", "endless junk"],
)
def test_refuses_other_wav_files(file: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        feed(file, 7)
