"""Train the codec on the teacher's audio, for a given time on one or more GPUs.

torchrun --nproc-per-node 8 -m scripts.train_pocket.codec.train --audio DIR --out DIR --minutes 10
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from scripts.train_pocket import config, folder, machines
from scripts.train_pocket.codec.audio import Audio, shards
from scripts.train_pocket.codec.discriminators import Critics
from scripts.train_pocket.codec.initial import initialise
from scripts.train_pocket.codec.losses import PhonemeHead
from scripts.train_pocket.codec.model import Codec
from scripts.train_pocket.codec.passes import Batch, Made, Passes
from scripts.train_pocket.codec.quantizer import Averages
from scripts.train_pocket.replay import Replayed
from scripts.train_pocket.schedule import TimedSchedule

_PHONEMES = 178
_STARTED_ON = 4
"""Batches that codebooks are started on."""
_SAVED_EVERY = 120.0
_PRINTED_EVERY = 5.0


class Options(NamedTuple):
    """What the command line says. open, alone: see ``Phase``."""

    audio: Path
    out: Path
    minutes: float
    batch: int
    rate: float
    open: float
    alone: float
    crowding: float
    frozen: bool
    resume: Path | None
    device: str


class Phase(Enum):
    """How far the training is.

    OPEN: latents are not quantised yet, so that they come to use all their dimensions first. ALONE: quantised, and
    compared by spectra alone. JUDGED: by the critics too.
    """

    OPEN = "open"
    ALONE = "alone"
    JUDGED = "judged"


def phase_at(progress: float, options: Options) -> Phase:
    """The phase at a share of the time."""
    if progress < options.open and not options.frozen:
        return Phase.OPEN
    return Phase.ALONE if progress < options.alone else Phase.JUDGED


class Trainer:
    """Codec, critics and their optimisers."""

    def __init__(self, options: Options) -> None:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        self.device = machines.join(options.device)
        pocket = config.load()
        torch.manual_seed(pocket.seed)
        random.seed(pocket.seed + machines.rank())
        self._random = torch.Generator(self.device).manual_seed(pocket.seed + machines.rank())
        codec, critics = Codec(folder.codec_architecture(pocket)), Critics()
        phonetic = PhonemeHead(2 * pocket.codec.codebook_dim, _PHONEMES)
        initialise(codec)
        if options.resume is not None:
            _resume(options.resume, codec, {"critics.": critics, "phonetic.": phonetic})
        self.batch = Batch(options.batch, self.device)
        self._passes = Passes(codec, critics, phonetic, self.batch, crowding=options.crowding, frozen=options.frozen)
        self._passes.to(self.device)
        machines.same_start([self._passes])
        self.audio = Audio(shards(options.audio)[machines.rank() :: machines.world()], self.device)
        self.maker = self._optimizer(self._passes.maker_parameters(), options.rate)
        self.critic = self._optimizer(self._passes.critic_parameters(), options.rate)
        self._averages = None if options.frozen else Averages(codec.quantizer)
        self._makers = {
            Phase.OPEN: Replayed(lambda: self._passes.make(judged=False, quantise=False), self.device),
            Phase.ALONE: Replayed(lambda: self._passes.make(judged=False), self.device),
            Phase.JUDGED: Replayed(lambda: self._passes.make(judged=True), self.device),
        }
        self._criticism = Replayed(self._passes.criticise, self.device)

    def step(self, phase: Phase) -> dict[str, Tensor]:
        """One step of codec and, if judged, critics. Returns the figures of this process."""
        self.batch.fill(self.audio, self._random)
        if phase is not Phase.OPEN and self._averages is not None and not self._averages.started:
            self._start_codebooks(self._averages)
        made: Made = self._makers[phase]()
        _learn(self.maker, self._passes.maker_parameters())
        if phase is not Phase.OPEN and self._averages is not None:
            self._averages.learn(made.targets, made.codes)
        if phase is not Phase.JUDGED:
            return made.figures
        self.batch.made.copy_(made.samples)
        loss = self._criticism()
        _learn(self.critic, self._passes.critic_parameters())
        return made.figures | {"critics": loss}

    def save(self, out: Path) -> None:
        """codec.safetensors as published, and what a later run goes on from, both bfloat16."""
        if machines.rank():
            return
        out.mkdir(parents=True, exist_ok=True)
        passes = self._passes
        _save(passes.codec.published(), out / "codec.safetensors")
        helpers = {f"critics.{name}": tensor for name, tensor in passes.critics.state_dict().items()}
        helpers |= {f"phonetic.{name}": tensor for name, tensor in passes.phonetic.state_dict().items()}
        _save(helpers, out / "helpers.safetensors")

    def _optimizer(self, parameters: list[nn.Parameter], rate: float) -> torch.optim.Optimizer:
        fused = self.device.type == "cuda"
        return torch.optim.AdamW(parameters, rate, (0.8, 0.99), weight_decay=0.01, fused=fused)

    def _start_codebooks(self, averages: Averages) -> None:
        latents = []
        with torch.no_grad():
            for _ in range(_STARTED_ON):
                latents.append(self._passes.codec.encoder(self.batch.samples))
                self.batch.fill(self.audio, self._random)
        averages.start(torch.cat(latents))


def _learn(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> None:
    machines.average_gradients(parameters)
    nn.utils.clip_grad_norm_(parameters, 20.0)
    optimizer.step()


def _save(tensors: Mapping[str, Tensor], file: Path) -> None:
    draft = file.with_suffix(".part")
    save_file({name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in tensors.items()}, draft)
    draft.rename(file)


def _resume(place: Path, codec: Codec, others: Mapping[str, nn.Module]) -> None:
    codec.load_published(load_file(place / "codec.safetensors"))
    helpers = {name: tensor.float() for name, tensor in load_file(place / "helpers.safetensors").items()}
    for prefix, module in others.items():
        module.load_state_dict({n.removeprefix(prefix): t for n, t in helpers.items() if n.startswith(prefix)})


def train(options: Options) -> None:
    """Until time is up; a line of figures every few seconds, weights every two minutes and at the end."""
    begin = time.monotonic()
    trainer = Trainer(options)
    print(f"{time.monotonic() - begin:6.1f} s to start, {trainer.audio.frames / 45000:.2f} h here", flush=True)
    schedule = TimedSchedule(options.minutes)
    saved = printed = begin = time.monotonic()
    while schedule.progress < 1:
        factor = schedule.step([trainer.maker, trainer.critic])
        figures = trainer.step(phase_at(schedule.progress, options))
        now = time.monotonic()
        if machines.rank() == 0 and now - printed > _PRINTED_EVERY:
            shown = " ".join(f"{name} {value.item():.3f}" for name, value in figures.items())
            print(f"{now - begin:6.1f} s step {schedule.steps} rate x{factor:.2f} {shown}", flush=True)
            printed = now
        if now - saved > _SAVED_EVERY:
            trainer.save(options.out)
            saved = now
    trainer.save(options.out)
    print(f"{time.monotonic() - begin:6.1f} s done: {schedule.steps} steps", flush=True)


def _options() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audio", type=Path, required=True, help="folder of the teacher's shards")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--batch", type=int, default=8, help="pieces a process")
    parser.add_argument("--rate", type=float, default=8e-4)
    parser.add_argument("--open", type=float, default=0.08, help="share of the time before anything is quantised")
    parser.add_argument("--alone", type=float, default=0.3, help="share of the time before the critics join")
    parser.add_argument("--crowding", type=float, default=0.05, help="weight of the loss that keeps latents apart")
    parser.add_argument("--frozen", action="store_true", help="only Code2Wav learns, so that codes keep their meaning")
    parser.add_argument("--resume", type=Path, help="folder that an earlier run wrote")
    parser.add_argument("--device", default="cuda")
    return Options(**vars(parser.parse_args()))


if __name__ == "__main__":
    train(_options())
