"""The recordings of docs/samples: ``python -m scripts.judge.samples``.

The same sentences by the teacher, by the codec from the teacher's recording, and by the checkpoint; and clones of
speakers that training never heard, beside what they were cloned from.
"""

from __future__ import annotations

import argparse
import html
import tempfile
from dataclasses import dataclass
from pathlib import Path

import soundfile

from engine.protocol.request import SAMPLE_RATE
from scripts.judge.clips import Clip, Clips, read_clips
from scripts.judge.codec import Codec
from scripts.judge.sound import Samples, read
from scripts.judge.synthesis import ExamUtterance, synthesize

ROOT = Path(__file__).parents[2]
_VOICES = ("ava", "adam", "emma", "george")
_CLONED = 3
_NEW_TEXT = "I have never said this sentence before, and yet it is my voice."
_SEED = 1


@dataclass(frozen=True)
class Row:
    """A line of the page. recordings: name of the file -> column's heading."""

    title: str
    text: str
    recordings: dict[str, str]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models" / "pocket")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "samples")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    clips = read_clips()
    with tempfile.TemporaryDirectory() as drafts:
        named = _named_rows(clips, args.checkpoint, Path(drafts), args.out)
        cloned = _cloned_rows(clips, args.checkpoint, Path(drafts), args.out)
    (args.out / "index.html").write_text(_page(named, cloned), encoding="utf-8")


def _named_rows(clips: Clips, checkpoint: Path, drafts: Path, out: Path) -> list[Row]:
    chosen = {voice: clips.named[voice][0] for voice in _VOICES}
    wanted = [ExamUtterance(clip.text, _SEED, speaker=voice) for voice, clip in chosen.items()]
    codec, rows = Codec(checkpoint), []
    for (voice, clip), spoken in zip(chosen.items(), synthesize(checkpoint, wanted, drafts), strict=True):
        samples, rate = read(clip.file)
        _write(out / f"{voice}-teacher.ogg", samples, rate)
        _write(out / f"{voice}-codec.ogg", codec(samples, rate), SAMPLE_RATE)
        _write(out / f"{voice}-pocket.ogg", *read(spoken.wav))
        rows.append(Row(voice, clip.text, _files(voice, {"teacher": "teacher", "codec": "codec", "pocket": "pocket"})))
    return rows


def _cloned_rows(clips: Clips, checkpoint: Path, drafts: Path, out: Path) -> list[Row]:
    rows = []
    for number, clip in enumerate(clips.unseen[:_CLONED], start=1):
        wanted = [ExamUtterance(_NEW_TEXT, _SEED, reference=clip, in_context=within) for within in (False, True)]
        by_vector, in_context = synthesize(checkpoint, wanted, drafts)
        name = f"clone{number}"
        _write(out / f"{name}-reference.ogg", *read(clip.file))
        _write(out / f"{name}-x-vector.ogg", *read(by_vector.wav))
        _write(out / f"{name}-in-context.ogg", *read(in_context.wav))
        headings = {"reference": "reference", "x-vector": "x-vector clone", "in-context": "in-context clone"}
        rows.append(Row(_described(clip), _NEW_TEXT, _files(name, headings)))
    return rows


def _described(clip: Clip) -> str:
    return f"a speaker that training never heard ({clip.speaker})"


def _files(name: str, headings: dict[str, str]) -> dict[str, str]:
    return {f"{name}-{kind}.ogg": heading for kind, heading in headings.items()}


def _write(file: Path, samples: Samples, rate: int) -> None:
    soundfile.write(file, samples, rate, format="OGG", subtype="OPUS")


def _page(named: list[Row], cloned: list[Row]) -> str:
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sonant: how the pocket checkpoint sounds</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }}
:root {{ color-scheme: light dark }}
figure {{ display: inline-block; margin: 0 1rem 1rem 0 }}
audio {{ width: 18rem; max-width: 100% }}
</style>
<h1>How the pocket checkpoint sounds</h1>
<p>Made by <code>python -m scripts.judge.samples</code>. The teacher is Kokoro-82M (Apache-2.0); its sentences here were
never trained on.</p>
<h2>Four voices: the teacher, its recording through the codec, and the checkpoint reading the same sentence</h2>
{_section(named)}
<h2>Clones from a few seconds of a voice</h2>
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
