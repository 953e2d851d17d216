"""Computes x-vectors for the talker's training: python3 -m scripts.train_pocket.speaker.embed --help."""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from engine.checkpoint.architecture import SpeakerEncoderArchitecture
from scripts.train_pocket.config import DEFAULT
from scripts.train_pocket.config import load as load_config
from scripts.train_pocket.folder import model_architecture
from scripts.train_pocket.speaker.ecapa import Ecapa
from scripts.train_pocket.speaker.folding import load
from scripts.train_pocket.speaker.mel import log_mels
from scripts.train_pocket.speaker.shards import SAMPLE_RATE, shards, speakers_by_id

_MAX_SAMPLES = 6 * SAMPLE_RATE
_BATCH = 64

Clip = tuple[int, npt.NDArray[np.int16]]
"""The id of an utterance, and its first samples."""


def main(arguments: list[str] | None = None) -> None:
    """Compute the x-vectors. arguments: the command line by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audio", type=Path, required=True, help="folder with shard-RRR-KKK.npz")
    parser.add_argument("--plan", type=Path, required=True, help="plan.jsonl.gz")
    parser.add_argument("--weights", type=Path, required=True, help="speaker_encoder.safetensors")
    parser.add_argument("--out", type=Path, required=True, help="xvectors.npz")
    parser.add_argument("--per-speaker", type=int, default=12, help="maximum utterances of each speaker")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--config", type=Path, default=DEFAULT)
    args = parser.parse_args(arguments)
    torch.backends.cudnn.allow_tf32 = False  # full float32 precision, like the engine
    architecture = model_architecture(load_config(args.config)).speaker_encoder
    assert architecture is not None
    encoder = load(args.weights, architecture, torch.device(args.device))
    begin = time.monotonic()
    speakers = speakers_by_id(args.plan)
    clips = choose(args.audio, speakers, args.per_speaker)
    vectors = dict(embed(encoder, architecture, clips))
    write(args.out, speakers, vectors)
    speaker_count = len({speakers[number] for number in vectors})
    print(
        f"[{time.monotonic() - begin:7.1f} s] {len(vectors)} x-vectors of {speaker_count} speakers: {args.out}",
        flush=True,
    )


def choose(folder: Path, speakers: dict[int, str], per_speaker: int) -> Iterator[Clip]:
    """Yield the first utterances of each speaker in the order of the shards, up to six seconds of each."""
    missing = Counter(dict.fromkeys(speakers.values(), per_speaker))
    for shard in shards(folder):
        selected = [i for i, number in enumerate(shard.ids.tolist()) if _take(missing, speakers[number])]
        samples = shard.samples() if selected else np.empty(0, np.int16)
        for i in selected:
            first, end = int(shard.starts[i]), int(shard.starts[i + 1])
            yield int(shard.ids[i]), samples[first : min(end, first + _MAX_SAMPLES)].copy()
        if not +missing:
            return


@torch.inference_mode()
def embed(
    encoder: Ecapa, architecture: SpeakerEncoderArchitecture, clips: Iterator[Clip]
) -> Iterator[tuple[int, npt.NDArray[np.float16]]]:
    """Yield (id, vector [width]) for each clip. Clips are batched by length, without padding."""
    batches: defaultdict[int, list[Clip]] = defaultdict(list)
    for clip in clips:
        batch = batches[len(clip[1])]
        batch.append(clip)
        if len(batch) == _BATCH:
            yield from _embed(encoder, architecture, batches.pop(len(clip[1])))
    for batch in batches.values():
        yield from _embed(encoder, architecture, batch)


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


def _embed(
    encoder: Ecapa, architecture: SpeakerEncoderArchitecture, batch: list[Clip]
) -> Iterator[tuple[int, npt.NDArray[np.float16]]]:
    samples = torch.from_numpy(np.stack([clip for _, clip in batch])).to(encoder.fc.weight.device).float() / 32768
    vectors = encoder(log_mels(samples, architecture.sample_rate, architecture.mel_dim)).half().cpu().numpy()
    yield from zip((number for number, _ in batch), vectors, strict=True)


if __name__ == "__main__":
    main()
