"""Trains the talker and the code predictor: python3 -m scripts.train_pocket.talker.train --help."""

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
from scripts.train_pocket.distributed import broadcast_weights, join_processes, rank, world_size
from scripts.train_pocket.folder import model_architecture
from scripts.train_pocket.talker.batches import LENGTHS
from scripts.train_pocket.talker.best import BEST, Best
from scripts.train_pocket.talker.corpus import read_corpus
from scripts.train_pocket.talker.example_sampler import ExampleSampler
from scripts.train_pocket.talker.feed import Rows, Share, feed, held_back
from scripts.train_pocket.talker.model import TrainableTalker
from scripts.train_pocket.talker.progress import Log, Timetable
from scripts.train_pocket.talker.robustness import DropoutTokenizer
from scripts.train_pocket.talker.saving import check_names, resume, save
from scripts.train_pocket.talker.trainer import Trainer

_REPORT_UTTERANCES = 512
"""Maximum number of held-out utterances for a report."""
_REPORT_SECONDS, _SAVE_SECONDS = 60.0, 50.0


def main() -> None:
    """Parse the arguments and train."""
    args = _arguments()
    begin = time.monotonic()
    device = join_processes(args.device)
    pocket = _configuration(args)
    torch.manual_seed(pocket.seed + rank())
    if device.type == "cuda":
        _configure_cuda()
    sampler = _sampler(pocket, args)
    trainer = _trainer(pocket, device)
    started = resume(trainer, args.resume) if args.resume else 0.0
    broadcast_weights([trainer.model, trainer.average])
    timetable = Timetable(begin, args.minutes * 60, 0.0 if args.again else started, pocket.talker_training)
    positions, share, seed = pocket.talker_training.positions, Share(rank(), world_size()), pocket.seed + trainer.steps
    batches = feed(sampler, positions, share, seed=seed, workers=args.workers, device=device)
    held_out = held_back(_without_augmentation(sampler, args), positions, _REPORT_UTTERANCES, pocket.seed, device)
    run(trainer, batches, held_out, timetable, args.out)
    if dist.is_initialized():
        dist.destroy_process_group()


def run(trainer: Trainer, batches: Iterator[Rows], held_out: Sequence[Rows], timetable: Timetable, out: Path) -> None:
    """Train until the time is over. Rank 0 prints reports, and saves every 50 s and at the end."""
    is_first = rank() == 0
    log, best = Log(timetable), Best(out)
    report_at, save_at = _REPORT_SECONDS, _SAVE_SECONDS
    while not timetable.is_over(trainer.steps):
        waited = time.monotonic()
        rows = next(batches)
        waited = time.monotonic() - waited
        rate = timetable.rate(trainer.steps)
        step_losses, norm = trainer.step(rows, rate)
        log.add(trainer.steps, rows, step_losses, norm, rate, waited)
        if is_first and held_out and timetable.elapsed > report_at:
            log.print(f"held out: {best.compare(trainer, held_out, timetable.progress)}")
            report_at = timetable.elapsed + _REPORT_SECONDS
        if is_first and timetable.elapsed > save_at:
            save(trainer, out, timetable.progress)
            save_at = timetable.elapsed + _SAVE_SECONDS
    if is_first:
        save(trainer, out, timetable.progress)
        log.print(f"saved after {trainer.steps} steps: {out}")
        if held_out:
            log.print(f"held out: {best.compare(trainer, held_out, timetable.progress)}")
            log.print(f"lowest loss after {best.steps} steps: {out / BEST}")


def _configure_cuda() -> None:
    """Disable cuDNN's attention, which is planned for each shape: nearly every batch has another shape."""
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.set_float32_matmul_precision("high")


def _configuration(args: argparse.Namespace) -> Pocket:
    """Return the configuration, with the values from the command line."""
    pocket = load(args.config)
    names = ("positions", "learning_rate", "warm_up", "dropout")
    changed = {name: value for name in names if (value := getattr(args, name)) is not None}
    return pocket.model_copy(update={"talker_training": pocket.talker_training.model_copy(update=changed)})


def _sampler(pocket: Pocket, args: argparse.Namespace) -> ExampleSampler:
    model = model_architecture(pocket)
    corpus = read_corpus(
        args.data / "plan.jsonl.gz",
        args.codes,
        args.xvectors,
        named=list(pocket.voices.named),
        degraded=args.degraded_codes,
    )
    if rank() == 0:
        frames = sum(len(each.codes) for each in corpus.trained)
        counts = f"{len(corpus.trained)} utterances, {frames} frames, {len(corpus.by_speaker)} speakers"
        print(f"{counts}; {len(corpus.held_back)} utterances held out", flush=True)
    draws = pocket.talker_training.draws
    tokenizer = DropoutTokenizer(_tokenizer_folder(args), draws.merge_dropout)
    return ExampleSampler(corpus, model, tokenizer, draws, pocket.talker.xvector_scale)


def _without_augmentation(sampler: ExampleSampler, args: argparse.Namespace) -> ExampleSampler:
    """Return a sampler without the random changes of texts, references and vectors."""
    disabled = dict.fromkeys(("joined", "altered_text", "phonemes", "xvector_noise", "corrupted", "other_xvector"), 0.0)
    tokenizer = TextTokenizer(_tokenizer_folder(args))
    return replace(sampler, shares=sampler.shares.model_copy(update=disabled), tokenizer=tokenizer)


def _tokenizer_folder(args: argparse.Namespace) -> Path:
    folder: Path = args.tokenizer or args.data / "tokenizer"
    return folder


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
    parser.add_argument("--data", type=Path, required=True, help="folder with plan.jsonl.gz and tokenizer/")
    parser.add_argument("--tokenizer", type=Path, help="folder of the tokenizer; default DATA/tokenizer")
    parser.add_argument("--codes", type=Path, required=True, help="folder with codes-NNN.npz")
    parser.add_argument("--degraded-codes", type=Path, help="folder with codes of degraded audio, for references")
    parser.add_argument("--xvectors", type=Path, help="xvectors.npz; not needed if all speakers are named")
    parser.add_argument("--out", type=Path, required=True, help="folder for talker.safetensors and state.pt")
    parser.add_argument("--minutes", type=float, required=True, help="time limit, including startup")
    parser.add_argument("--resume", type=Path, help="folder of an earlier run to continue from, with its learning rate")
    parser.add_argument("--again", action="store_true", help="with --resume: restart the learning rate schedule")
    parser.add_argument("--positions", type=int, help="rows of a batch per GPU")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--warm-up", type=int, help="steps until the learning rate is reached")
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--workers", type=int, default=_spare_cores(), help="processes that make batches")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--config", type=Path, default=DEFAULT)
    return parser.parse_args()


def _spare_cores() -> int:
    """Return the number of cores per process on this machine minus two, between 1 and 10."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, min(10, (os.cpu_count() or 1) // local - 2))


if __name__ == "__main__":
    main()
