"""``make judge``: one table of how a checkpoint speaks, and of how fast its server is on two cores."""

from __future__ import annotations

import argparse
import json
import logging
import time
from pathlib import Path

import torch

from scripts.judge.clips import read_clips
from scripts.judge.details import figure_details, utterance_details
from scripts.judge.exam import QUICK, Size, exam
from scripts.judge.fingerprint import fingerprint
from scripts.judge.parts import Parts, hold
from scripts.judge.places import KEPT, ROOT
from scripts.judge.speed import measure
from scripts.judge.summary import speech_figures, speed_figures
from scripts.judge.table import Figure, render, tally

_HELD_OUT = ROOT / "scripts" / "train_pocket" / "held_out.txt"
_QUICK_CODEC_CLIPS = 12
_REQUESTS, _QUICK_REQUESTS = 10, 4


def main() -> None:
    """The command line."""
    asked = _arguments()
    logging.basicConfig(level=logging.WARNING)
    torch.set_num_threads(1)
    began = time.monotonic()
    sentences = [line for line in asked.sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    speed = [] if asked.skip_speed else _speed(asked, sentences)
    parts = None if asked.skip_speech else _hold(asked, sentences)
    figures = [*(speech_figures(parts) if parts else []), *speed]
    print(render(figures))
    print(f"\n{asked.checkpoint}: {tally(figures)}; {time.monotonic() - began:.0f} s")
    if asked.json:
        details = {"figures": figure_details(figures), "utterances": utterance_details(parts) if parts else []}
        asked.json.write_text(json.dumps(details, indent=1, ensure_ascii=False), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make judge", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models" / "pocket")
    parser.add_argument("--sentences", type=Path, default=_HELD_OUT, help="one a line")
    parser.add_argument("--quick", action="store_true", help="30 sentences with one seed, 6 clones")
    parser.add_argument("--seeds", type=int, default=Size.seeds, help="how often each sentence is said")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="what speaks; the judges use the CPU")
    parser.add_argument("--skip-speed", action="store_true", help="leave the server out")
    parser.add_argument("--skip-speech", action="store_true", help="only the server")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    asked = parser.parse_args()
    if not (asked.checkpoint / "config.json").is_file():
        parser.error(f"there is no checkpoint in {asked.checkpoint}")
    return asked


def _hold(asked: argparse.Namespace, sentences: list[str]) -> Parts:
    clips = read_clips()
    size = QUICK if asked.quick else Size(seeds=asked.seeds)
    codec_clips = clips.all()[:_QUICK_CODEC_CLIPS] if asked.quick else clips.all()
    out = KEPT / "spoken" / asked.device / fingerprint(asked.checkpoint)
    return hold(asked.checkpoint, exam(sentences, clips, size), clips, codec_clips, out, asked.device)


def _speed(asked: argparse.Namespace, sentences: list[str]) -> list[Figure]:
    """Before anything else, while the machine is cool and idle."""
    KEPT.mkdir(exist_ok=True)
    requests = _QUICK_REQUESTS if asked.quick else _REQUESTS
    return speed_figures(measure(asked.checkpoint, sentences, requests, KEPT / "server.log"))


if __name__ == "__main__":
    main()
