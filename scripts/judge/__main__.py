"""``make judge``: prints a table of a checkpoint's speech quality, and of its server's speed on two cores."""

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
from scripts.judge.parts import ExamResults, run_exam
from scripts.judge.paths import CACHE, ROOT
from scripts.judge.speed import measure
from scripts.judge.summary import speech_figures, speed_figures
from scripts.judge.table import Figure, render, tally

_HELD_OUT = ROOT / "scripts" / "train_pocket" / "held_out.txt"
_QUICK_CODEC_CLIPS = 12
_REQUESTS, _QUICK_REQUESTS = 10, 4


def main() -> None:
    """Measure the checkpoint and print the table."""
    args = _arguments()
    logging.basicConfig(level=logging.WARNING)
    torch.set_num_threads(1)
    began = time.monotonic()
    sentences = [line for line in args.sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    speed = [] if args.skip_speed else _speed(args, sentences)
    results = None if args.skip_speech else _run_exam(args, sentences)
    figures = [*(speech_figures(results) if results else []), *speed]
    print(render(figures))
    print(f"\n{args.checkpoint}: {tally(figures)}; {time.monotonic() - began:.0f} s")
    if args.json:
        details = {"figures": figure_details(figures), "utterances": utterance_details(results) if results else []}
        args.json.write_text(json.dumps(details, indent=1, ensure_ascii=False), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make judge", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models" / "pocket", help="a checkpoint folder")
    parser.add_argument("--sentences", type=Path, default=_HELD_OUT, help="file with one sentence per line")
    parser.add_argument("--quick", action="store_true", help="30 sentences with one seed, 6 clones")
    parser.add_argument("--seeds", type=int, default=Size.seeds, help="number of times that each sentence is spoken")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="device of the engine; the judges run on the CPU"
    )
    parser.add_argument("--skip-speed", action="store_true", help="do not measure the server")
    parser.add_argument("--skip-speech", action="store_true", help="measure only the server")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    args = parser.parse_args()
    if not (args.checkpoint / "config.json").is_file():
        parser.error(f"--checkpoint must be a checkpoint folder; {args.checkpoint} has no config.json")
    return args


def _run_exam(args: argparse.Namespace, sentences: list[str]) -> ExamResults:
    clips = read_clips()
    size = QUICK if args.quick else Size(seeds=args.seeds)
    codec_clips = clips.all()[:_QUICK_CODEC_CLIPS] if args.quick else clips.all()
    out = CACHE / "spoken" / args.device / fingerprint(args.checkpoint)
    return run_exam(args.checkpoint, exam(sentences, clips, size), clips, codec_clips, out, args.device)


def _speed(args: argparse.Namespace, sentences: list[str]) -> list[Figure]:
    """Measure the server. This comes first, while the machine is idle and cool."""
    CACHE.mkdir(exist_ok=True)
    requests = _QUICK_REQUESTS if args.quick else _REQUESTS
    return speed_figures(measure(args.checkpoint, sentences, requests, CACHE / "server.log"))


if __name__ == "__main__":
    main()
