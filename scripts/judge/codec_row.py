"""Measures the quality loss of a codec: ``python -m scripts.judge.codec_row --codec FOLDER_OR_FILE [--list LIST.tsv]``.

Scores recordings before and after the codec; the similarity is between the two. Each line of the list is WAV and TEXT;
without a list, the clips of the repository are used.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import soundfile
import torch

from engine.protocol.request import SAMPLE_RATE
from scripts.judge.clips import Clip, read_clips
from scripts.judge.codec import Codec
from scripts.judge.figures import RECOGNIZERS, corpus_wer, mean
from scripts.judge.paths import CACHE
from scripts.judge.recordings import Recording, Row, read_list, run_judges
from scripts.judge.sound import read


def main() -> None:
    """Score the recordings and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codec", type=Path, required=True)
    parser.add_argument("--list", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    originals = read_list(args.list) if args.list else clip_recordings(read_clips().all())
    out = args.out or CACHE / "codec" / hashlib.sha256(str(args.codec.resolve()).encode()).hexdigest()[:12]
    decoded = through_codec(args.codec, originals, out)
    rows = run_judges([*originals, *decoded])
    print(f"{'':14}{'Moonshine':>10}{'Whisper':>9}{'MOS':>6}{'similarity':>12}")
    print(_table_row("original", rows[: len(originals)]))
    print(_table_row("after codec", rows[len(originals) :]))
    print(f"wrote the decoded recordings to {out}")


def through_codec(codec: Path, originals: Sequence[Recording], out: Path) -> list[Recording]:
    """Encode and decode each recording into ``out``. The reference of a decoded recording is its original."""
    out.mkdir(parents=True, exist_ok=True)
    model = Codec(codec)
    decoded = []
    for index, original in enumerate(originals):
        wav = out / f"{index:03}-{original.wav.stem}.wav"
        soundfile.write(wav, model(*read(original.wav)), SAMPLE_RATE)
        decoded.append(Recording(wav, original.text, original.wav))
    return decoded


def clip_recordings(clips: Iterable[Clip]) -> list[Recording]:
    """Return clips as recordings to judge."""
    return [Recording(clip.file, clip.text) for clip in clips]


def _table_row(name: str, rows: list[Row]) -> str:
    rates = [corpus_wer(rows, recognizer) for recognizer in RECOGNIZERS]
    words = "".join(
        f"{'' if rate is None else f'{100 * rate:.1f} %':>{width}}" for rate, width in zip(rates, (10, 9), strict=True)
    )
    scores = [mean(rows, score) for score in ("mos", "similarity")]
    return f"{name:14}{words}" + "".join(
        f"{'' if value is None else f'{value:.2f}':>{width}}" for value, width in zip(scores, (6, 12), strict=True)
    )


if __name__ == "__main__":
    main()
