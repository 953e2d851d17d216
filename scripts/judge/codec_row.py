"""What the codec alone costs: ``python -m scripts.judge.codec_row --codec FOLDER_OR_FILE [--list LIST.tsv]``.

The list's recordings (WAV, TEXT a line; the repository's clips when not given) are scored as they are and after the
codec; the similarity is between the two.
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
from scripts.judge.figures import RECOGNISERS, corpus_wer, mean
from scripts.judge.places import KEPT
from scripts.judge.recordings import Recording, Row, judged, read_list
from scripts.judge.sound import read


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codec", type=Path, required=True)
    parser.add_argument("--list", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    originals = read_list(asked.list) if asked.list else clip_recordings(read_clips().all())
    out = asked.out or KEPT / "codec" / hashlib.sha256(str(asked.codec.resolve()).encode()).hexdigest()[:12]
    decoded = through_codec(asked.codec, originals, out)
    rows = judged([*originals, *decoded])
    print(f"{'':14}{'Moonshine':>10}{'Whisper':>9}{'MOS':>6}{'similarity':>12}")
    print(_line("original", rows[: len(originals)]))
    print(_line("after codec", rows[len(originals) :]))
    print(f"recordings after the codec are in {out}")


def through_codec(codec: Path, originals: Sequence[Recording], out: Path) -> list[Recording]:
    """Write each recording after the codec into ``out``; its reference is the original."""
    out.mkdir(parents=True, exist_ok=True)
    model = Codec(codec)
    decoded = []
    for index, original in enumerate(originals):
        wav = out / f"{index:03}-{original.wav.stem}.wav"
        soundfile.write(wav, model(*read(original.wav)), SAMPLE_RATE)
        decoded.append(Recording(wav, original.text, original.wav))
    return decoded


def clip_recordings(clips: Iterable[Clip]) -> list[Recording]:
    """Clips as recordings to judge."""
    return [Recording(clip.file, clip.text) for clip in clips]


def _line(name: str, rows: list[Row]) -> str:
    rates = [corpus_wer(rows, recogniser) for recogniser in RECOGNISERS]
    words = "".join(
        f"{'' if rate is None else f'{100 * rate:.1f} %':>{width}}" for rate, width in zip(rates, (10, 9), strict=True)
    )
    scores = [mean(rows, score) for score in ("mos", "similarity")]
    return f"{name:14}{words}" + "".join(
        f"{'' if value is None else f'{value:.2f}':>{width}}" for value, width in zip(scores, (6, 12), strict=True)
    )


if __name__ == "__main__":
    main()
