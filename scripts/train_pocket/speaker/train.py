"""Trains the speaker encoder: python3 -m scripts.train_pocket.speaker.train --help."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from engine.checkpoint.architecture import SpeakerEncoderArchitecture
from scripts.train_pocket.config import DEFAULT, Pocket
from scripts.train_pocket.config import load as load_config
from scripts.train_pocket.folder import model_architecture
from scripts.train_pocket.speaker import corpus as audio
from scripts.train_pocket.speaker.ecapa import Ecapa
from scripts.train_pocket.speaker.evaluate import embed, report
from scripts.train_pocket.speaker.folding import calibrate, fold, save
from scripts.train_pocket.speaker.mel import log_mels
from scripts.train_pocket.speaker.shards import SAMPLE_RATE, mixtures
from scripts.train_pocket.speaker.trainer import Trainer

WEIGHTS = "speaker_encoder.safetensors"
_STATE = "speaker_encoder_training.pt"
_LOG_INTERVAL = 10.0
_SAVE_INTERVAL = 30.0
_CALIBRATION = 6000

Log = Callable[[str], None]


def main() -> None:
    """Parse the arguments and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audio", type=Path, required=True, help="folder with shard-RRR-KKK.npz")
    parser.add_argument("--plan", type=Path, required=True, help="plan.jsonl.gz")
    parser.add_argument("--speakers", type=Path, required=True, help="speakers.json")
    parser.add_argument(
        "--out", type=Path, required=True, help=f"folder for {WEIGHTS} and the state, from which a later run continues"
    )
    parser.add_argument("--minutes", type=float, required=True, help="minutes of training, including earlier runs")
    parser.add_argument("--initial", type=Path, help=f"{WEIGHTS} of an earlier training to begin with")
    parser.add_argument("--rate", type=float, help="learning rate; default from the configuration")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--config", type=Path, default=DEFAULT)
    args = parser.parse_args()
    pocket = load_config(args.config)
    if args.rate is not None:
        training = pocket.speaker_training.model_copy(update={"learning_rate": args.rate})
        pocket = pocket.model_copy(update={"speaker_training": training})
    train(
        pocket,
        audio_folder=args.audio,
        plan=args.plan,
        speakers=args.speakers,
        out=args.out,
        minutes=args.minutes,
        device=torch.device(args.device),
        initial=args.initial,
    )


def train(
    pocket: Pocket,
    *,
    audio_folder: Path,
    plan: Path,
    speakers: Path,
    out: Path,
    minutes: float,
    device: torch.device,
    initial: Path | None = None,
) -> Path:
    """Train for ``minutes`` and write the weights. Return their file.

    It continues from the state in ``out``; without one, it begins with the weights ``initial``, or random ones.
    """
    log = _timed_log()
    torch.manual_seed(pocket.seed)
    settings, architecture = pocket.speaker_training, _architecture(pocket)
    corpus = audio.load(audio_folder, plan, settings.hours, device)
    split = audio.split(corpus, settings.unseen_speakers, pocket.seed)
    log(
        f"{len(corpus.samples) / SAMPLE_RATE / 3600:.1f} h of {len(corpus.names)} speakers:"
        f" {len(split.train)} training utterances, {len(split.seen)} held out,"
        f" {len(split.unseen)} of unseen speakers"
    )
    mixture_weights = torch.from_numpy(mixtures(speakers, corpus.names))
    trainer = Trainer(settings, architecture, corpus, split.train, mixture_weights)
    out.mkdir(parents=True, exist_ok=True)
    if (out / _STATE).exists():
        trainer.resume(out / _STATE)
        log(f"continuing from step {trainer.steps}, {trainer.seconds:.0f} s")
    elif initial is not None:
        trainer.begin_with(initial)
        log(f"beginning with {initial}; {_report(trainer, corpus, split)}")
    _run(trainer, 60 * minutes, out / _STATE, log, lambda: _report(trainer, corpus, split))
    folded = _export(trainer.encoder, architecture, corpus, split)
    save(folded, out / WEIGHTS)
    log(f"{out / WEIGHTS} written; {report(_encoder(folded, architecture), trainer.objective, corpus, split)}")
    return out / WEIGHTS


def _run(trainer: Trainer, seconds: float, state: Path, log: Log, evaluate: Callable[[], str]) -> None:
    """Train for ``seconds``, including evaluations and saving."""
    begin = time.monotonic() - trainer.seconds
    logged = saved = trainer.seconds
    sums: list[Tensor] = []
    while (now := time.monotonic() - begin) < seconds:
        sums.append(trainer.step(now / seconds))
        if now - logged > _LOG_INTERVAL:
            loss, mixture, accuracy = torch.stack(sums).mean(0).tolist()
            rate = len(sums) / (time.monotonic() - begin - logged)
            log(
                f"step {trainer.steps} ({rate:.1f}/s) loss {loss:.3f} mixture {mixture:.3f}"
                f" accuracy {100 * accuracy:.1f} %"
            )
            logged, sums = time.monotonic() - begin, []
        if now - saved > _SAVE_INTERVAL:
            log(evaluate())
            trainer.seconds = saved = time.monotonic() - begin
            trainer.save(state)
            logged = time.monotonic() - begin
            sums = []
    trainer.seconds = max(seconds, trainer.seconds)
    trainer.save(state)


def _report(trainer: Trainer, corpus: audio.Corpus, split: audio.Split) -> str:
    trainer.encoder.eval()
    text = report(trainer.encode, trainer.objective, corpus, split)
    trainer.encoder.train()
    return text


def _export(
    trained: Ecapa, architecture: SpeakerEncoderArchitecture, corpus: audio.Corpus, split: audio.Split
) -> Ecapa:
    """Return the checkpoint's encoder. Its vectors are centered and have an RMS of one over the training speakers."""
    folded = fold(trained.eval(), architecture)
    utterances = split.train[:_CALIBRATION]
    vectors = embed(_encoder(folded, architecture), corpus, utterances)
    calibrate(folded, vectors, corpus.speakers[utterances])
    return folded


def _encoder(folded: Ecapa, architecture: SpeakerEncoderArchitecture) -> Callable[[Tensor], Tensor]:
    return lambda clips: folded(log_mels(clips, architecture.sample_rate, architecture.mel_dim))


def _architecture(pocket: Pocket) -> SpeakerEncoderArchitecture:
    architecture = model_architecture(pocket).speaker_encoder
    assert architecture is not None
    return architecture


def _timed_log() -> Log:
    begin = time.monotonic()
    return lambda text: print(f"[{time.monotonic() - begin:7.1f} s] {text}", flush=True)


if __name__ == "__main__":
    main()
