"""Train the speaker encoder: python3 -m scripts.train_pocket.speaker.train --help."""

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
_SAY_EVERY = 10.0
_SAVE_EVERY = 30.0
_CALIBRATION = 6000

Say = Callable[[str], None]


def main() -> None:
    """Read the arguments and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audio", type=Path, required=True, help="folder of shard-RRR-KKK.npz")
    parser.add_argument("--plan", type=Path, required=True, help="plan.jsonl.gz")
    parser.add_argument("--speakers", type=Path, required=True, help="speakers.json")
    parser.add_argument(
        "--out", type=Path, required=True, help=f"folder for {WEIGHTS} and what a later run goes on from"
    )
    parser.add_argument("--minutes", type=float, required=True, help="of training, earlier runs' included")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--config", type=Path, default=DEFAULT)
    arguments = parser.parse_args()
    train(
        load_config(arguments.config),
        audio_folder=arguments.audio,
        plan=arguments.plan,
        speakers=arguments.speakers,
        out=arguments.out,
        minutes=arguments.minutes,
        device=torch.device(arguments.device),
    )


def train(
    pocket: Pocket, *, audio_folder: Path, plan: Path, speakers: Path, out: Path, minutes: float, device: torch.device
) -> Path:
    """Train for that long, going on from what ``out`` holds, and write the weights. Returns their file."""
    say = _clock()
    torch.manual_seed(pocket.seed)
    settings, architecture = pocket.speaker_training, _architecture(pocket)
    corpus = audio.load(audio_folder, plan, settings.hours, device)
    split = audio.split(corpus, settings.unseen_speakers, pocket.seed)
    say(
        f"{len(corpus.samples) / SAMPLE_RATE / 3600:.1f} h of {len(corpus.names)} speakers:"
        f" {len(split.train)} utterances to train on, {len(split.seen)} held back,"
        f" {len(split.unseen)} of unseen speakers"
    )
    mixed = torch.from_numpy(mixtures(speakers, corpus.names))
    trainer = Trainer(settings, architecture, corpus, split.train, mixed)
    out.mkdir(parents=True, exist_ok=True)
    if (out / _STATE).exists():
        trainer.resume(out / _STATE)
        say(f"going on from step {trainer.steps}, {trainer.seconds:.0f} s")
    _run(trainer, 60 * minutes, out / _STATE, say, lambda: _report(trainer, corpus, split))
    plain = _export(trainer.encoder, architecture, corpus, split)
    save(plain, out / WEIGHTS)
    say(f"{out / WEIGHTS} written; {report(_encoder(plain, architecture), trainer.objective, corpus, split)}")
    return out / WEIGHTS


def _run(trainer: Trainer, seconds: float, state: Path, say: Say, evaluate: Callable[[], str]) -> None:
    """Step until the trainer has had its seconds; evaluations and files count."""
    begin = time.monotonic() - trainer.seconds
    said = saved = trainer.seconds
    sums: list[Tensor] = []
    while (now := time.monotonic() - begin) < seconds:
        sums.append(trainer.step(now / seconds))
        if now - said > _SAY_EVERY:
            loss, mixture, accuracy = torch.stack(sums).mean(0).tolist()
            rate = len(sums) / (time.monotonic() - begin - said)
            say(
                f"step {trainer.steps} ({rate:.1f}/s) loss {loss:.3f} mixture {mixture:.3f}"
                f" accuracy {100 * accuracy:.1f} %"
            )
            said, sums = time.monotonic() - begin, []
        if now - saved > _SAVE_EVERY:
            say(evaluate())
            trainer.seconds = saved = time.monotonic() - begin
            trainer.save(state)
            said = time.monotonic() - begin
            sums = []
    trainer.seconds = max(seconds, trainer.seconds)
    trainer.save(state)


def _report(trainer: Trainer, corpus: audio.Corpus, split: audio.Split) -> str:
    trainer.encoder.eval()
    words = report(trainer.encode, trainer.objective, corpus, split)
    trainer.encoder.train()
    return words


def _export(
    trained: Ecapa, architecture: SpeakerEncoderArchitecture, corpus: audio.Corpus, split: audio.Split
) -> Ecapa:
    """The checkpoint's encoder, its vectors centred and of RMS one over the training speakers."""
    plain = fold(trained.eval(), architecture)
    utterances = split.train[:_CALIBRATION]
    vectors = embed(_encoder(plain, architecture), corpus, utterances)
    calibrate(plain, vectors, corpus.speakers[utterances])
    return plain


def _encoder(plain: Ecapa, architecture: SpeakerEncoderArchitecture) -> Callable[[Tensor], Tensor]:
    return lambda clips: plain(log_mels(clips, architecture.sample_rate, architecture.mel_dim))


def _architecture(pocket: Pocket) -> SpeakerEncoderArchitecture:
    architecture = model_architecture(pocket).speaker_encoder
    assert architecture is not None
    return architecture


def _clock() -> Say:
    begin = time.monotonic()
    return lambda words: print(f"[{time.monotonic() - begin:7.1f} s] {words}", flush=True)


if __name__ == "__main__":
    main()
