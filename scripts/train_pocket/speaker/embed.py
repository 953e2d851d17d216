"""Computes x-vectors for the talker's training: python3 -m scripts.train_pocket.speaker.embed --help."""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from engine.checkpoint.architecture import SpeakerEncoderArchitecture
from scripts.train_pocket.config import DEFAULT
from scripts.train_pocket.config import load as load_config
from scripts.train_pocket.folder import model_architecture
from scripts.train_pocket.speaker.augment import Augmenter
from scripts.train_pocket.speaker.ecapa import Ecapa
from scripts.train_pocket.speaker.folding import load
from scripts.train_pocket.speaker.mel import log_mels
from scripts.train_pocket.speaker.shards import SAMPLE_RATE, shards, speakers_by_id

_CROP_SECONDS = (1, 1.5, 2, 3, 4, 6, 10, 15, 25)
_BATCH_SAMPLES = 384 * SAMPLE_RATE

Clip = tuple[int, npt.NDArray[np.int16]]
"""The id of an utterance, and a crop of its samples."""


def main(arguments: list[str] | None = None) -> None:
    """Compute the x-vectors. arguments: the command line by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audio", type=Path, required=True, help="folder with shard-RRR-KKK.npz")
    parser.add_argument("--plan", type=Path, required=True, help="plan.jsonl.gz")
    parser.add_argument("--weights", type=Path, required=True, help="speaker_encoder.safetensors")
    parser.add_argument("--out", type=Path, required=True, help="xvectors.npz")
    parser.add_argument("--per-speaker", type=int, default=12, help="maximum utterances of each speaker")
    parser.add_argument(
        "--degraded", type=float, default=0.5, help="share with noise, rooms and bands, as people's are"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--config", type=Path, default=DEFAULT)
    args = parser.parse_args(arguments)
    torch.backends.cudnn.allow_tf32 = False  # full float32 precision, like the engine
    architecture = model_architecture(load_config(args.config)).speaker_encoder
    assert architecture is not None
    device = torch.device(args.device)
    encoder = load(args.weights, architecture, device)
    begin = time.monotonic()
    speakers = speakers_by_id(args.plan)
    clips = choose(args.audio, speakers, args.per_speaker, np.random.default_rng(args.seed))
    degrade = Degrader(Augmenter(torch.Generator(device).manual_seed(args.seed)), args.degraded, args.seed)
    vectors = dict(embed(encoder, architecture, clips, degrade))
    write(args.out, speakers, vectors)
    speaker_count = len({speakers[number] for number in vectors})
    print(
        f"[{time.monotonic() - begin:7.1f} s] {len(vectors)} x-vectors of {speaker_count} speakers: {args.out}",
        flush=True,
    )


class Degrader:
    """Degrades a share of the clips of a batch."""

    def __init__(self, augment: Augmenter, share: float, seed: int) -> None:
        self._augment, self._share = augment, share
        self._random = np.random.default_rng(seed)

    def __call__(self, clips: torch.Tensor) -> torch.Tensor:
        """Return float32 clips [batch, n], some of them degraded."""
        chosen = torch.from_numpy(self._random.random(len(clips)) < self._share).to(clips.device)
        return torch.where(chosen[:, None], self._augment(clips), clips)


def choose(folder: Path, speakers: dict[int, str], per_speaker: int, random: np.random.Generator) -> Iterator[Clip]:
    """Yield the first utterances of each speaker in the order of the shards.

    Each is cut at random to one of a few lengths. The longest one that fits is as probable as all the others.
    """
    missing = Counter(dict.fromkeys(speakers.values(), per_speaker))
    for shard in shards(folder):
        selected = [i for i, number in enumerate(shard.ids.tolist()) if _take(missing, speakers[number])]
        samples = shard.samples() if selected else np.empty(0, np.int16)
        for i in selected:
            first, end = int(shard.starts[i]), int(shard.starts[i + 1])
            yield int(shard.ids[i]), _crop(samples[first:end], random)
        if not +missing:
            return


def _crop(samples: npt.NDArray[np.int16], random: np.random.Generator) -> npt.NDArray[np.int16]:
    lengths = [round(seconds * SAMPLE_RATE) for seconds in _CROP_SECONDS if seconds * SAMPLE_RATE <= len(samples)]
    if not lengths:
        return np.resize(samples, _CROP_SECONDS[0] * SAMPLE_RATE)
    length = lengths[-1] if random.random() < 0.5 else int(random.choice(lengths))
    first = int(random.integers(len(samples) - length + 1))
    return samples[first : first + length].copy()


@torch.inference_mode()
def embed(
    encoder: Ecapa,
    architecture: SpeakerEncoderArchitecture,
    clips: Iterator[Clip],
    degrade: Callable[[torch.Tensor], torch.Tensor] = lambda clips: clips,
) -> Iterator[tuple[int, npt.NDArray[np.float16]]]:
    """Yield (id, vector [width]) for each clip after ``degrade``. Clips are batched by length, without padding."""
    batches: defaultdict[int, list[Clip]] = defaultdict(list)

    def finish(batch: list[Clip]) -> Iterator[tuple[int, npt.NDArray[np.float16]]]:
        device = encoder.fc.weight.device
        samples = degrade(torch.from_numpy(np.stack([clip for _, clip in batch])).to(device).float() / 32768)
        vectors = encoder(log_mels(samples, architecture.sample_rate, architecture.mel_dim)).half().cpu().numpy()
        yield from zip((number for number, _ in batch), vectors, strict=True)

    for clip in clips:
        length = len(clip[1])
        batches[length].append(clip)
        if (len(batches[length]) + 1) * length > _BATCH_SAMPLES:
            yield from finish(batches.pop(length))
    for batch in batches.values():
        yield from finish(batch)


def write(file: Path, speakers: dict[int, str], vectors: dict[int, npt.NDArray[np.float16]]) -> None:
    """Write xvectors.npz: speakers str [n], ids int64 [n], vectors float16 [n, width], ordered by id."""
    ids = sorted(vectors)
    np.savez(
        file,
        speakers=np.array([speakers[number] for number in ids]),
        ids=np.array(ids, np.int64),
        vectors=np.stack([vectors[number] for number in ids]),
    )


def _take(missing: Counter[str], speaker: str) -> bool:
    missing[speaker] -= 1
    return missing[speaker] >= 0


if __name__ == "__main__":
    main()
