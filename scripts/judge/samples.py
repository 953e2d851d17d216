"""Writes the recordings and the page of docs/samples: ``python -m scripts.judge.samples``.

Each named voice has the same sentence three times: spoken by the teacher, the same recording after the codec, and
spoken by the checkpoint. Each unseen speaker has a reference recording, an x-vector clone and an in-context clone.
"""

from __future__ import annotations

import argparse
import html
import tempfile
from dataclasses import dataclass
from pathlib import Path

import soundfile

from engine.protocol.request import SAMPLE_RATE
from scripts.judge.clips import Clips, read_clips
from scripts.judge.codec import Codec
from scripts.judge.sound import Samples, read
from scripts.judge.synthesis import ExamUtterance, synthesize

ROOT = Path(__file__).parents[2]
_VOICES = ("ava", "adam", "emma", "george", "bella", "oliver")
_CLONED = 3
_NEW_TEXT = "I have never said this sentence before, and yet it is my voice."
_SEED = 1
_NAMED_HEADINGS = {"teacher": "teacher", "codec": "teacher, after the codec", "pocket": "pocket checkpoint"}
_CLONE_HEADINGS = {"reference": "reference", "x-vector": "x-vector clone", "in-context": "in-context clone"}


@dataclass(frozen=True)
class Row:
    """One row of the page. recordings: file name -> heading."""

    title: str
    text: str
    recordings: dict[str, str]


def main() -> None:
    """Synthesize the recordings and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models" / "pocket")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "samples")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    clips = read_clips()
    with tempfile.TemporaryDirectory() as folder:
        named = _named_rows(clips, options.checkpoint, Path(folder), options.out)
        cloned = _cloned_rows(clips, options.checkpoint, Path(folder), options.out)
    (options.out / "index.html").write_text(_page(named, cloned), encoding="utf-8")


def _named_rows(clips: Clips, checkpoint: Path, folder: Path, out: Path) -> list[Row]:
    """Return a row for each named voice. folder: for temporary WAV files."""
    teachers = {voice: clips.named[voice][0] for voice in _VOICES}
    utterances = [ExamUtterance(clip.text, _SEED, speaker=voice) for voice, clip in teachers.items()]
    codec, rows = Codec(checkpoint), []
    for (voice, clip), spoken in zip(teachers.items(), synthesize(checkpoint, utterances, folder), strict=True):
        samples, rate = read(clip.file)
        _write(out / f"{voice}-teacher.ogg", samples, rate)
        _write(out / f"{voice}-codec.ogg", codec(samples, rate), SAMPLE_RATE)
        _write(out / f"{voice}-pocket.ogg", *read(spoken.wav))
        rows.append(Row(voice, clip.text, _files(voice, _NAMED_HEADINGS)))
    return rows


def _cloned_rows(clips: Clips, checkpoint: Path, folder: Path, out: Path) -> list[Row]:
    """Return a row for each cloned speaker. folder: for temporary WAV files."""
    rows = []
    for number, clip in enumerate(clips.unseen[:_CLONED], start=1):
        utterances = [ExamUtterance(_NEW_TEXT, _SEED, reference=clip, in_context=mode) for mode in (False, True)]
        x_vector, in_context = synthesize(checkpoint, utterances, folder)
        name = f"clone{number}"
        _write(out / f"{name}-reference.ogg", *read(clip.file))
        _write(out / f"{name}-x-vector.ogg", *read(x_vector.wav))
        _write(out / f"{name}-in-context.ogg", *read(in_context.wav))
        rows.append(Row(f"Speaker {clip.speaker}", _NEW_TEXT, _files(name, _CLONE_HEADINGS)))
    return rows


def _files(name: str, headings: dict[str, str]) -> dict[str, str]:
    return {f"{name}-{kind}.ogg": heading for kind, heading in headings.items()}


def _write(file: Path, samples: Samples, rate: int) -> None:
    soundfile.write(file, samples, rate, format="OGG", subtype="OPUS")


def _page(named: list[Row], cloned: list[Row]) -> str:
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sonant: samples of the pocket checkpoint</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }}
:root {{ color-scheme: light dark }}
figure {{ display: inline-block; margin: 0 1rem 1rem 0 }}
audio {{ width: 18rem; max-width: 100% }}
</style>
<h1>Samples of the pocket checkpoint</h1>
<p>This page is for everyone who wants to hear the included checkpoint. The teacher is Kokoro-82M (Apache-2.0). Its
sentences on this page are not in the training data. <code>python -m scripts.judge.samples</code> writes this page.</p>
<h2>Named voices</h2>
<p>The same sentence, spoken by the teacher, by the teacher after encoding and decoding with the codec, and by the
checkpoint.</p>
{_section(named)}
<h2>Cloned voices</h2>
<p>The speakers are not in the training data. The checkpoint clones each one from a reference of a few seconds.</p>
{_section(cloned)}
</html>
"""


def _section(rows: list[Row]) -> str:
    return "\n".join(_row(row) for row in rows)


def _row(row: Row) -> str:
    players = "".join(
        f'<figure><figcaption>{html.escape(heading)}</figcaption><audio controls preload="none" src="{name}"></audio>'
        "</figure>"
        for name, heading in row.recordings.items()
    )
    return f"<h3>{html.escape(row.title)}</h3>\n<p>&ldquo;{html.escape(row.text)}&rdquo;</p>\n<div>{players}</div>"


if __name__ == "__main__":
    main()
