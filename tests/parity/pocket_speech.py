"""The expected speech of the shipped checkpoint, and its measurement.

    python -m tests.parity.pocket_speech [FOLDER] [--to FILE]

writes the expectations of ``test_pocket_speech.py``, and prints how much the measured figures vary between seeds.
Run it after the checkpoint was trained again, and never because a test fails.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray

from engine.checkpoint.folder import open_checkpoint
from engine.cloning.encoder import ReferenceEncoder
from engine.code2wav.loading import load_decoder
from engine.config import EngineConfig, TalkerConfig
from engine.protocol.messages import EncodeRequest
from engine.protocol.request import SAMPLE_RATE, FinishReason, SamplingParams, SpeechRequest, Voice
from engine.talker.loading import load_native_talker
from tests.support import talkers
from tests.support.reference_voices import log_mel

CHECKPOINT = Path(__file__).parents[2] / "models" / "pocket"
EXPECTED = Path(__file__).parent / "golden" / "pocket_speech.npz"
TEXT = "The morning train was late again, and nobody minded."
REFERENCE_TEXT = "A small boat drifted slowly across the quiet lake."
REFERENCE_SPEAKER = "emma"
CLONES = ("x-vector clone", "in-context clone")
SEED = 7
_BANDS = 40
_BLOCK = 8
"""Number of averaged mel frames of 256 samples: 85 ms."""
_QUIET_DB = -40.0
_STEP = SAMPLE_RATE // 100

Samples = NDArray[np.float32]
Codes = NDArray[np.int16]


@dataclass(frozen=True)
class SpeechFigures:
    """seconds: total duration; silence: seconds before 10 ms exceed -40 dBFS; loudness: dBFS of the parts above that;
    spectrum: log-mel spectrum of those parts, averaged over time [40].
    """

    seconds: float
    silence: float
    loudness: float
    spectrum: NDArray[np.float32]


def measure(samples: Samples) -> SpeechFigures:
    """Measure an utterance. The loudness of silence is -inf."""
    steps = samples[: len(samples) // _STEP * _STEP].reshape(-1, _STEP)
    power = 10 * np.log10(np.square(steps).mean(1) + 1e-12)
    loud = power > _QUIET_DB
    first = int(loud.argmax()) if loud.any() else len(loud)
    loudness = 10 * np.log10(np.square(steps[loud]).mean()) if loud.any() else float("-inf")
    mel = _log_mel(samples)
    louder = mel.mean(0) > np.median(mel.mean(0)) - 2
    return SpeechFigures(
        len(samples) / SAMPLE_RATE, first * _STEP / SAMPLE_RATE, float(loudness), mel[:, louder].mean(1)
    )


def blocks(samples: Samples) -> NDArray[np.float32]:
    """Log-mel spectra of 85 ms each, [n, 40]."""
    mel = _log_mel(samples)
    complete = mel.shape[1] // _BLOCK * _BLOCK
    return mel[:, :complete].reshape(_BANDS, -1, _BLOCK).mean(2).T


def _log_mel(samples: Samples) -> NDArray[np.float32]:
    return log_mel(torch.from_numpy(samples), SAMPLE_RATE, _BANDS).numpy()


class Pocket:
    """A checkpoint with both stages and its encoders, in this process."""

    def __init__(self, folder: Path) -> None:
        config = EngineConfig(model=str(folder), device="cpu", threads=1, talker=TalkerConfig(context=1024))
        self.checkpoint = open_checkpoint(str(folder))
        self.speakers = tuple(self.checkpoint.model.talker.speakers)
        self._talker = load_native_talker(self.checkpoint, config, torch.device("cpu"))
        self._decoder = load_decoder(config)
        self._encoder = ReferenceEncoder(self.checkpoint, torch.device("cpu"))

    def speak(self, requests: Mapping[str, SpeechRequest]) -> dict[str, talkers.Generated]:
        """The frames of all requests, generated in one batch."""
        prepared = [talkers.prepare(request, self.checkpoint) for request in requests.values()]
        return dict(zip(requests, talkers.speak(self._talker, prepared), strict=True))

    def samples(self, codes: Codes, context: Codes | None = None) -> Samples:
        """Decode frames [n, 16] that follow the reference ``context``."""
        row = self._decoder.begin(context)
        try:
            pieces = [self._decoder.decode([row], chunk[None])[0] for chunk in np.split(codes, range(6, len(codes), 6))]
        finally:
            self._decoder.end(row)
        return np.concatenate(pieces)

    def voice(self, recording: Samples) -> Voice:
        """Encode a recording with both encoders."""
        return self._encoder.encode(EncodeRequest(recording, codes=True))

    def surprise(self, request: SpeechRequest, codes: Codes) -> NDArray[np.float64]:
        """Mean negative log-likelihood of an utterance's codes and end: of codebook 0, and of the others."""
        prompt, sampling = talkers.prepare(request, self.checkpoint)
        eos = self.checkpoint.model.talker.ids.eos
        forced = _Forced([*codes.flatten().tolist(), eos])
        with mock.patch("engine.talker.native.talker.Sampler") as sampler:
            sampler.return_value = sampler.of.return_value = forced
            [spoken] = talkers.speak(self._talker, [(prompt, replace(sampling, max_new_tokens=len(codes) + 2))])
        assert np.array_equal(spoken.codes, codes)
        losses = np.array(forced.losses[:-1]).reshape(-1, 16)
        return np.array([np.append(losses[:, 0], forced.losses[-1]).mean(), losses[:, 1:].mean()])


class _Forced:
    """Replaces the samplers: returns the given codes and records their negative log-likelihood."""

    def __init__(self, codes: list[int]) -> None:
        self._codes: Iterator[int] = iter(codes)
        self.losses: list[float] = []

    def __call__(self, logits: torch.Tensor, _uniform: torch.Tensor) -> torch.Tensor:
        code = next(self._codes)
        self.losses.append(-float(torch.log_softmax(logits[0].double(), -1)[code]))
        return torch.tensor([code])


def requests(speakers: tuple[str, ...], voice: Voice, seed: int = SEED) -> dict[str, SpeechRequest]:
    """The compared utterances: one of every speaker, and one of each kind of clone."""
    sampling = SamplingParams(seed=seed)
    requests_by_name = {name: SpeechRequest(TEXT, speaker=name, sampling=sampling) for name in speakers}
    in_context = replace(voice, transcript=REFERENCE_TEXT)
    for name, cloned in zip(CLONES, (Voice(voice.embedding), in_context), strict=True):
        requests_by_name[name] = SpeechRequest(TEXT, voice=cloned, sampling=sampling)
    return requests_by_name


def context_of(request: SpeechRequest) -> Codes | None:
    """The frames that Code2Wav processes before the utterance's own."""
    reference = None if request.voice is None else request.voice.codes
    return None if reference is None else reference.astype(np.int16)


def _expectations(pocket: Pocket) -> dict[str, NDArray[np.generic]]:
    reference = SpeechRequest(REFERENCE_TEXT, speaker=REFERENCE_SPEAKER, sampling=SamplingParams(seed=SEED))
    reference_codes = pocket.speak({"reference": reference})["reference"].codes.astype(np.int16)
    voice = pocket.voice(pocket.samples(reference_codes))
    assert voice.codes is not None
    expected: dict[str, NDArray[np.generic]] = {
        "speakers": np.array(pocket.speakers),
        "reference/spoken": reference_codes,
        "reference/codes": voice.codes.astype(np.int16),
        "reference/embedding": voice.embedding,
    }
    requests_by_name = requests(pocket.speakers, voice)
    for name, output in pocket.speak(requests_by_name).items():
        if output.finish is not FinishReason.STOP:
            print(f"{name} did not end: {output.finish}")
        codes = output.codes.astype(np.int16)
        samples = pocket.samples(codes, context_of(requests_by_name[name]))
        expected[f"{name}/codes"] = codes
        expected[f"{name}/blocks"] = blocks(samples).astype(np.float16)
        expected[f"{name}/surprise"] = pocket.surprise(requests_by_name[name], codes)
    return expected


def _print_spread(pocket: Pocket, expected: Mapping[str, NDArray[np.generic]]) -> None:
    """Print how much other seeds differ from the expected one; the tolerances of the tests must be larger."""
    voice = Voice(expected["reference/embedding"], expected["reference/codes"].astype(np.int64))
    for name in (*pocket.speakers, *CLONES):
        requests_by_seed = {str(seed): requests(pocket.speakers, voice, seed)[name] for seed in range(SEED, SEED + 6)}
        outputs = pocket.speak(requests_by_seed)
        figures = [
            measure(pocket.samples(outputs[s].codes.astype(np.int16), context_of(requests_by_seed[s])))
            for s in requests_by_seed
        ]
        first, others = figures[0], figures[1:]
        print(
            f"{name:17} {first.seconds:4.2f} s (others {min(h.seconds for h in others):.2f} .. "
            f"{max(h.seconds for h in others):.2f}), silence {1000 * max(h.silence for h in figures):3.0f} ms, "
            f"{first.loudness:.1f} dBFS (others within {max(abs(h.loudness - first.loudness) for h in others):.1f}), "
            f"spectra within {max(np.abs(h.spectrum - first.spectrum).mean() for h in others):.2f}, "
            f"surprise {', '.join(f'{each:.3f}' for each in expected[f'{name}/surprise'])}"
        )


def main() -> None:
    """Write the expectations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=CHECKPOINT)
    parser.add_argument("--to", type=Path, default=EXPECTED)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pocket = Pocket(options.folder)
    expected = _expectations(pocket)
    _print_spread(pocket, expected)
    np.savez_compressed(options.to, **expected)  # type: ignore[arg-type]
    print(f"{options.to}: {options.to.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
