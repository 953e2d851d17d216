"""Speaks live text through a server, and counts wrong words: ``python -m scripts.judge.live``.

It needs the environment of ``make judge``. A server of its own receives each text over the WebSocket in pieces of a few
characters, as a language model writes them: short replies (``data/replies.txt``), and the classes everyday and
elsewhere, two texts in a session. The main voices speak in turn. Moonshine and Whisper hear the recordings.

Then some sessions receive their text at a steady rate. The time from the first piece to the first audio is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from engine.protocol.request import SAMPLE_RATE
from scripts.judge.class_items import read_items
from scripts.judge.exam import MAIN_VOICES
from scripts.judge.figures import RECOGNIZERS, corpus_wer
from scripts.judge.fingerprint import fingerprint
from scripts.judge.paths import CACHE, DATA, ROOT
from scripts.judge.recordings import Recording, Row, run_judges
from scripts.judge.serving import ServedCheckpoint
from server.text.frontend import spoken

_PIECE_CHARACTERS = 4
_PIECES_PER_S = 50.0
_PACED_SESSIONS = 12
_AT_ONCE = 4
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class LiveText:
    """A text of a session. kind: the line of the table that it counts for."""

    kind: str
    typed: str
    voice: str
    seed: int


@dataclass(frozen=True)
class Answer:
    """What a session received.

    error: the code of an error event, after which the session ended, or the name of an exception.
    first_audio_s: from the first piece of text to the first audio; None without audio.
    """

    samples: bytes
    first_audio_s: float | None
    error: str | None


def main() -> None:
    """Print one line for each kind of text, what was misheard or failed, and the times to the first audio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models" / "pocket", help="a checkpoint folder")
    parser.add_argument("--seeds", type=int, default=2, help="number of times that each text is spoken")
    args = parser.parse_args()
    out = CACHE / "spoken" / "live" / fingerprint(args.checkpoint)
    out.mkdir(parents=True, exist_ok=True)
    texts = list(live_texts(args.seeds))
    with ServedCheckpoint(args.checkpoint, out / "server.log") as server:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = list(pool.map(lambda text: speak(server.port, text), texts))
        paced = [speak(server.port, text, _PIECES_PER_S) for text in texts[-_PACED_SESSIONS:]]
    recordings = [_recording(text, answer, out / f"{index}.wav") for index, (text, answer) in _heard(texts, answers)]
    print(report(texts, answers, run_judges(recordings, ",".join(RECOGNIZERS))))
    times = sorted(math.inf if answer.first_audio_s is None else answer.first_audio_s for answer in paced)
    print(
        f"first audio with {_PIECES_PER_S:g} pieces of {_PIECE_CHARACTERS} characters a second: "
        f"{times[0]:.2f} to {times[-1]:.2f} s, median {statistics.median(times):.2f}"
    )


def live_texts(seeds: int) -> Iterator[LiveText]:
    """Return the texts of all sessions."""
    items = read_items()
    replies = (DATA / "replies.txt").read_text(encoding="utf-8").splitlines()
    sentences = [item.typed for name in ("everyday", "elsewhere") for item in items[name]]
    pairs = [" ".join(sentences[index : index + 2]) for index in range(0, len(sentences), 2)]
    for seed in range(1, seeds + 1):
        for kind, group in (("replies", replies), ("sentences", pairs)):
            for index, typed in enumerate(group):
                yield LiveText(kind, typed, MAIN_VOICES[(index + seed) % len(MAIN_VOICES)], seed)


def speak(port: int, text: LiveText, pieces_per_s: float | None = None) -> Answer:
    """Speak a text in a session. pieces_per_s: how fast its pieces are sent; None for as fast as possible."""
    address = f"ws://127.0.0.1:{port}/v1/audio/speech/stream"
    with connect(address, max_size=None, open_timeout=_TIMEOUT_S, proxy=None) as connection:
        config = {"type": "session.config", "response_format": "pcm", "voice": text.voice, "seed": text.seed}
        connection.send(json.dumps(config))
        began = time.monotonic()
        sender = threading.Thread(target=_send, args=(connection, text.typed, pieces_per_s), daemon=True)
        sender.start()
        try:
            return _receive(connection, began)
        except (TimeoutError, ConnectionClosed) as error:
            return Answer(b"", None, type(error).__name__)
        finally:
            connection.close()
            sender.join(_TIMEOUT_S)


def _send(connection: Connection, typed: str, pieces_per_s: float | None) -> None:
    with contextlib.suppress(ConnectionClosed):  # after an error event
        for start in range(0, len(typed), _PIECE_CHARACTERS):
            piece = typed[start : start + _PIECE_CHARACTERS]
            connection.send(json.dumps({"type": "input.text", "text": piece}))
            if pieces_per_s is not None:
                time.sleep(1 / pieces_per_s)
        connection.send(json.dumps({"type": "input.done"}))


def _receive(connection: Connection, began: float) -> Answer:
    samples, first_audio_s = bytearray(), None
    while True:
        message = connection.recv(_TIMEOUT_S)
        if isinstance(message, bytes):
            samples += message
            first_audio_s = time.monotonic() - began if first_audio_s is None else first_audio_s
            continue
        event = json.loads(message)
        if event["type"] == "audio.done":
            return Answer(bytes(samples), first_audio_s, None)
        if event["type"] == "error":
            return Answer(bytes(samples), first_audio_s, event["error"]["code"])


def _heard(texts: Sequence[LiveText], answers: Sequence[Answer]) -> Iterator[tuple[int, tuple[LiveText, Answer]]]:
    """Return the sessions that were spoken to the end, with their indices."""
    pairs = zip(texts, answers, strict=True)
    return ((index, pair) for index, pair in enumerate(pairs) if pair[1].error is None)


def _recording(text: LiveText, answer: Answer, wav: Path) -> Recording:
    soundfile.write(wav, np.frombuffer(answer.samples, np.int16), SAMPLE_RATE)
    return Recording(wav, spoken(text.typed, "english").text)


def report(texts: Sequence[LiveText], answers: Sequence[Answer], rows: Sequence[Row]) -> str:
    """Return the table, then a line for each failed session and for each text that both recognizers misheard.

    rows: the scores of the sessions that were spoken to the end.
    """
    heard = [(text, row) for (_, (text, _)), row in zip(_heard(texts, answers), rows, strict=True)]
    lines = [f"{'kind':10}{'texts':>7}{'errors':>8}" + "".join(f"{f'WER, {name}':>16}" for name in RECOGNIZERS)]
    for kind in dict.fromkeys(text.kind for text in texts):
        group = [row for text, row in heard if text.kind == kind]
        total = sum(text.kind == kind for text in texts)
        rates = "".join(f"{100 * (corpus_wer(group, name) or 0):14.1f} %" for name in RECOGNIZERS)
        lines.append(f"{kind:10}{total:7}{total - len(group):8}{rates}")
    lines += [
        f"error {answer.error}: {text.typed!r}" for text, answer in zip(texts, answers, strict=True) if answer.error
    ]
    lines += [
        f"{text.voice}: {row['text']!r} heard as " + " and ".join(repr(row[name]["heard"]) for name in RECOGNIZERS)
        for text, row in heard
        if all(row[name]["errors"] for name in RECOGNIZERS)
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
