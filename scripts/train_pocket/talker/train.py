"""Train the talker and the code predictor: python3 -m scripts.train_pocket.talker.train --help."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from engine.prompt.tokenizer import TextTokenizer
from scripts.train_pocket.config import DEFAULT, Pocket, load
from scripts.train_pocket.folder import model_architecture
from scripts.train_pocket.machines import join, rank, same_start, world
from scripts.train_pocket.talker.batches import LENGTHS
from scripts.train_pocket.talker.corpus import read_corpus
from scripts.train_pocket.talker.draws import Drawing
from scripts.train_pocket.talker.evaluate import evaluate
from scripts.train_pocket.talker.feed import Rows, Share, feed, held_back
from scripts.train_pocket.talker.model import TrainableTalker
from scripts.train_pocket.talker.progress import Log, Timetable
from scripts.train_pocket.talker.saving import check_names, resume, save
from scripts.train_pocket.talker.trainer import Trainer

_JUDGED = 512
"""Held-back utterances of a report, at most."""
_REPORT_SECONDS, _SAVE_SECONDS = 60.0, 120.0


def main() -> None:
    """Command line."""
    given = _arguments()
    begin = time.monotonic()
    device = join(given.device)
    pocket = _settings(given)
    torch.manual_seed(pocket.seed + rank())
    if device.type == "cuda":
        _for_many_shapes()
    drawing = _drawing(pocket, given)
    trainer = _trainer(pocket, device)
    started = resume(trainer, given.resume) if given.resume else 0.0
    same_start([trainer.model, trainer.average])
    timetable = Timetable(begin, given.minutes * 60, 0.0 if given.again else started, pocket.talker_training)
    positions, share, seed = pocket.talker_training.positions, Share(rank(), world()), pocket.seed + trainer.steps
    batches = feed(drawing, positions, share, seed=seed, workers=given.workers, device=device)
    judged = held_back(_unchanging(drawing), positions, _JUDGED, pocket.seed, device)
    run(trainer, batches, judged, timetable, given.out)
    if dist.is_initialized():
        dist.destroy_process_group()


def run(trainer: Trainer, batches: Iterator[Rows], judged: Sequence[Rows], timetable: Timetable, out: Path) -> None:
    """Train until the time is over; the first process prints and saves, at the end and every two minutes."""
    leads = rank() == 0
    log = Log(timetable)
    report_at, save_at = _REPORT_SECONDS, _SAVE_SECONDS
    while not timetable.over(trainer.steps):
        waited = time.monotonic()
        rows = next(batches)
        waited = time.monotonic() - waited
        rate = timetable.rate(trainer.steps)
        found, norm = trainer.step(rows, rate)
        log.add(trainer.steps, rows, found, norm, rate, waited)
        if leads and judged and timetable.elapsed > report_at:
            log.print(f"held back: {evaluate(trainer.average, judged)}")
            report_at = timetable.elapsed + _REPORT_SECONDS
        if leads and timetable.elapsed > save_at:
            save(trainer, out, timetable.progress)
            save_at = timetable.elapsed + _SAVE_SECONDS
    if leads:
        save(trainer, out, timetable.progress)
        log.print(f"saved after {trainer.steps} steps: {out}")
        if judged:
            log.print(f"held back: {evaluate(trainer.average, judged)}")


def _for_many_shapes() -> None:
    """cuDNN's attention is planned anew for every shape, and nearly every batch has one of its own."""
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.set_float32_matmul_precision("high")


def _settings(given: argparse.Namespace) -> Pocket:
    """The configuration with what the command line says otherwise."""
    pocket = load(given.config)
    said = {"positions": given.positions, "learning_rate": given.learning_rate}
    changed = {key: value for key, value in said.items() if value is not None}
    return pocket.model_copy(update={"talker_training": pocket.talker_training.model_copy(update=changed)})


def _drawing(pocket: Pocket, given: argparse.Namespace) -> Drawing:
    model = model_architecture(pocket)
    corpus = read_corpus(given.data / "plan.jsonl.gz", given.codes, given.xvectors, named=list(pocket.voices.named))
    if rank() == 0:
        frames = sum(len(each.codes) for each in corpus.trained)
        counts = f"{len(corpus.trained)} utterances, {frames} frames, {len(corpus.by_speaker)} speakers"
        print(f"{counts}; {len(corpus.held_back)} utterances held back", flush=True)
    tokenizer = TextTokenizer(given.tokenizer or given.data / "tokenizer")
    return Drawing(corpus, model, tokenizer, pocket.talker_training.draws, pocket.talker.xvector_scale)


def _unchanging(drawing: Drawing) -> Drawing:
    """Without the changes that training makes to texts and vectors."""
    plain = {"joined": 0.0, "altered_text": 0.0, "xvector_noise": 0.0}
    return replace(drawing, shares=drawing.shares.model_copy(update=plain))


def _trainer(pocket: Pocket, device: torch.device) -> Trainer:
    architecture, settings = model_architecture(pocket), pocket.talker_training
    model = TrainableTalker(
        architecture.talker,
        positions=LENGTHS[-1],
        dropout=settings.dropout,
        dtype=torch.bfloat16 if device.type == "cuda" else torch.float32,
    )
    trainer = Trainer(model.to(device), settings)
    check_names(trainer, architecture)
    return trainer


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of plan.jsonl.gz and tokenizer/")
    parser.add_argument("--tokenizer", type=Path, help="the tokenizer's folder, if it is elsewhere")
    parser.add_argument("--codes", type=Path, required=True, help="folder of codes-NNN.npz")
    parser.add_argument("--xvectors", type=Path, required=True, help="xvectors.npz")
    parser.add_argument("--out", type=Path, required=True, help="folder for talker.safetensors and state.pt")
    parser.add_argument("--minutes", type=float, required=True, help="when to stop, from the start of the command")
    parser.add_argument("--resume", type=Path, help="go on from such a folder, where its learning rate stood")
    parser.add_argument("--again", action="store_true", help="with --resume: the learning rate starts afresh")
    parser.add_argument("--positions", type=int, help="rows of a batch on each GPU")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--workers", type=int, default=_spare_cores(), help="processes that make batches")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--config", type=Path, default=DEFAULT)
    return parser.parse_args()


def _spare_cores() -> int:
    """Of the cores that each process of this machine has, all but two; at most six."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, min(6, (os.cpu_count() or 1) // local - 2))


if __name__ == "__main__":
    main()
