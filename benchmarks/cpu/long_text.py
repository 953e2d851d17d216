"""Speaks long texts through a server and measures the joints between their pieces.

    python -m benchmarks.cpu.long_text [--characters 100 300 1000 3000 20000] [--voice ava] [--config FILE]

For each length it prints

- pieces: number of utterances of the engine;
- joints: silence between the last sound of a piece and the first sound of the next one, in seconds, smallest and
  largest, at three thresholds of what is sound. To find the joints, each piece is also requested alone with its seed:
  on a CPU its samples are the same;
- late: number of chunks that arrived after a client that plays from the first audible sample had run out of audio, and
  how many of them were the first sound after a joint; with the smallest amount of audio that the client had buffered;
- RTF: seconds until the last sample, per second of audio. Close to 1 or above it, other work on the machine makes
  chunks late.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.report import machine
from benchmarks.lib.serving import ROOT, TIMEOUT_S, running_server
from engine.checkpoint.checksums import Checksums
from engine.checkpoint.speech_profile import read_speech_profile
from engine.protocol.request import SAMPLE_RATE, SamplingParams, SpeechRequest
from engine.protocol.speech_profile import SpeechProfile
from server.audio.onset import sound
from server.long_text.segments import Turn, segments
from server.settings import load_settings
from server.text.frontend import spoken

SEED = 3
THRESHOLDS = (-60, -50, -40)
"""In dBFS: the root mean square of 10 ms above which they are sound."""
_BLOCK = SAMPLE_RATE // 100
_MATCH = SAMPLE_RATE // 10
"""Samples at the end of a piece that are searched for in the whole."""
_PARAGRAPHS = (
    "The harbor was quiet when the first boats came in. Nobody had expected them before noon, and the market was still "
    "closed. A boy ran along the wall, waved both arms, and shouted something that the wind carried away.",
    "“You are early,” said the old woman at the gate. She did not look up from her knitting. “The coffee is not ready, "
    "and neither am I.”",
    "By the end of the week, everyone in town had heard the story: a ship without a name, a crew that spoke to nobody, "
    "and a cargo that was carried off by night, piece by piece, in carts whose wheels had been wrapped in cloth so "
    "that they made no sound on the stones.",
    "It cost $3,000 in 1987. Dr. Miller paid half of it. The rest is still open, and no one asks for it any more.",
)


@dataclass(frozen=True)
class Played:
    """Speech as a client received it.

    late: index of the first sample of each chunk after an underrun. buffered: smallest buffer in seconds.
    seconds: until the last sample.
    """

    samples: NDArray[np.int16]
    late: list[int]
    buffered: float
    seconds: float


def text_of(characters: int) -> str:
    """Return prose of about ``characters`` characters, which ends with a sentence."""
    text = ""
    for paragraph in itertools.cycle(_PARAGRAPHS):
        sentences = paragraph.replace(". ", ".\n").split("\n")
        for number, sentence in enumerate(sentences):
            if text and len(text) + len(sentence) > characters:
                return text
            text += ("\n\n" if not number else " ") * bool(text) + sentence
    raise AssertionError("cycle has no end")


def play(client: httpx.Client, **fields: object) -> Played:
    """Send a streaming request and play its audio."""
    began = time.perf_counter()
    audio, heard_at, audible, buffered = bytearray(), 0.0, 0, float("inf")
    late: list[int] = []
    body = {"response_format": "pcm", "language": "English", **fields}
    with client.stream("POST", "/v1/audio/speech", json=body) as response:
        if response.status_code != 200:
            raise SystemExit(f"{response.status_code}: {response.read().decode()}")
        for chunk in response.iter_raw():
            now = time.perf_counter() - began
            if heard_at:
                left = (len(audio) // 2 - audible) / SAMPLE_RATE - (now - heard_at)
                late += [len(audio) // 2] if left < 0 else []
                buffered = min(buffered, left)
                heard_at -= min(0.0, left)
            audio += chunk
            if not heard_at and (start := sound(_samples(audio))[0]) < len(audio) // 2:
                heard_at, audible = now, start
    return Played(_samples(audio), late, buffered, time.perf_counter() - began)


def joints(whole: NDArray[np.int16], alone: Sequence[NDArray[np.int16]]) -> list[tuple[int, int]]:
    """Return the indices of the last sound of a piece and of the first one of the next, for each joint of ``whole``."""
    found: list[tuple[int, int]] = []
    raw, at = whole.tobytes(), 0
    for piece, following in itertools.pairwise(alone):
        _, end = sound(piece)
        end = _place(raw, piece[end - _MATCH : end], at) + _MATCH
        start, _ = sound(following)
        start = at = _place(raw, following[start : start + _MATCH], end)
        found.append((end, start))
    return found


def _place(raw: bytes, part: NDArray[np.int16], start: int) -> int:
    place = raw.find(part.tobytes(), 2 * start)
    if place < 0:
        raise SystemExit("a piece requested alone has other samples: this measurement needs a CPU")
    return place // 2


def _silence(samples: NDArray[np.int16], end: int, start: int, threshold: int) -> float:
    """Return the seconds without sound around the joint from ``end`` to ``start``."""
    middle = (end + start) // 2 // _BLOCK
    blocks = samples[: len(samples) // _BLOCK * _BLOCK].reshape(-1, _BLOCK).astype(np.float32)
    loud = np.sqrt(np.square(blocks).mean(axis=1)) > 10 ** (threshold / 20) * 32767
    before, after = np.flatnonzero(loud[:middle]), np.flatnonzero(loud[middle:])
    return float(middle + after[0] - before[-1] - 1) * _BLOCK / SAMPLE_RATE


def planned(text: str, profile: SpeechProfile, voice: str) -> Iterator[SpeechRequest]:
    """Yield the requests of the pieces of ``text``."""
    read = spoken(text, "english", profile.text_steps)
    request = SpeechRequest(read.text, speaker=voice, language="english", sampling=SamplingParams(seed=SEED))
    yield from (
        each.request
        for each in segments([Turn(request, read.pauses)], "auto", profile.piece_characters)
        if each.request
    )


def measure(client: httpx.Client, profile: SpeechProfile, voice: str, characters: int) -> None:
    """Speak one text and print its row."""
    text = text_of(characters)
    whole = play(client, input=text, voice=voice, seed=SEED)
    requests = list(planned(text, profile, voice))
    alone = [
        play(client, input=each.text, voice=voice, seed=each.sampling.seed, split="none", normalize=False).samples
        for each in requests
    ]
    places = joints(whole.samples, alone)
    columns = []
    for threshold in THRESHOLDS if places else ():
        silences = [_silence(whole.samples, end, start, threshold) for end, start in places]
        columns.append(f"{min(silences):.2f} to {max(silences):.2f} s at {threshold} dBFS")
    late_joints = sum(any(end <= late <= start for late in whole.late) for end, start in places)
    seconds = len(whole.samples) / SAMPLE_RATE
    late = f"{len(whole.late)} late, {late_joints} at joints, at least {1000 * whole.buffered:.0f} ms buffered"
    print(f"{len(text):6d} characters  {seconds:7.1f} s  {len(requests):3d} pieces  RTF {whole.seconds / seconds:.2f}")
    print(f"       joints {', '.join(columns) or 'none'}; {late}", flush=True)


def main() -> None:
    """Start a server and speak a text of each length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--characters", type=int, nargs="+", default=[100, 300, 1000, 3000])
    parser.add_argument("--voice", default="ava")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "pocket.yaml")
    args = parser.parse_args()
    engine = load_settings(args.config).all_models[0].engine
    profile = read_speech_profile(Path(engine.model), Checksums.load(Path(engine.model)))
    print("{cpu}; Python {python}, torch {torch}".format(**machine()))
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(args.config, Path(folder, "log")) as (address, _),
        httpx.Client(base_url=address, timeout=TIMEOUT_S) as client,
    ):
        for characters in args.characters:
            measure(client, profile, args.voice, characters)


def _samples(audio: bytearray) -> NDArray[np.int16]:
    return np.frombuffer(bytes(audio[: len(audio) // 2 * 2]), "<i2")


if __name__ == "__main__":
    main()
