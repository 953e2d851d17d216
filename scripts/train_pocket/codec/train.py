"""Train the codec on shards of audio, for a given time on one or more GPUs.

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

from scripts.train_pocket import config, distributed, folder
from scripts.train_pocket.codec.audio import Audio, shards
from scripts.train_pocket.codec.discriminators import Discriminators
from scripts.train_pocket.codec.initial import initialize
from scripts.train_pocket.codec.losses import PhonemeHead
from scripts.train_pocket.codec.model import Codec
from scripts.train_pocket.codec.passes import Batch, GeneratorOutput, Passes
from scripts.train_pocket.codec.quantizer import CodebookAverages
from scripts.train_pocket.cuda_graphs import GraphedCallable
from scripts.train_pocket.schedule import TimedSchedule

_PHONEMES = 178
_START_BATCHES = 4
"""Number of batches from which the codebooks are initialized."""
_SAVE_INTERVAL = 50.0
_PRINT_INTERVAL = 5.0


class Options(NamedTuple):
    """The options of the command line. open, alone: ends of the first two phases (``Phase``), as shares of the time."""

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
    recorded: float | None
    device: str


class Phase(Enum):
    """The phases of the training.

    UNQUANTIZED: latents are not quantized yet, so that they learn to use all their dimensions. SPECTRAL: with
    quantization, and only spectral losses. ADVERSARIAL: also with the discriminators.
    """

    UNQUANTIZED = "unquantized"
    SPECTRAL = "spectral"
    ADVERSARIAL = "adversarial"


def phase_at(progress: float, options: Options) -> Phase:
    """Return the phase at a share of the time."""
    if progress < options.open and not options.frozen:
        return Phase.UNQUANTIZED
    return Phase.SPECTRAL if progress < options.alone else Phase.ADVERSARIAL


class Trainer:
    """Codec, discriminators and their optimizers."""

    def __init__(self, options: Options) -> None:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        self.device = distributed.join_processes(options.device)
        pocket = config.load()
        torch.manual_seed(pocket.seed)
        random.seed(pocket.seed + distributed.rank())
        self._random = torch.Generator(self.device).manual_seed(pocket.seed + distributed.rank())
        codec, discriminators = Codec(folder.codec_architecture(pocket)), Discriminators()
        phoneme_head = PhonemeHead(2 * pocket.codec.codebook_dim, _PHONEMES)
        initialize(codec)
        if options.resume is not None:
            _resume(options.resume, codec, {"critics.": discriminators, "phonetic.": phoneme_head})
        self.batch = Batch(options.batch, self.device)
        self._passes = Passes(
            codec, discriminators, phoneme_head, self.batch, correlation_weight=options.crowding, frozen=options.frozen
        )
        self._passes.to(self.device)
        distributed.broadcast_weights([self._passes])
        files = shards(options.audio)[distributed.rank() :: distributed.world_size()]
        self.audio = Audio(files, self.device, options.recorded)
        self.codec_optimizer = self._optimizer(self._passes.codec_parameters(), options.rate)
        self.discriminator_optimizer = self._optimizer(self._passes.discriminator_parameters(), options.rate)
        self._averages = None if options.frozen else CodebookAverages(codec.quantizer)
        self._codec_passes = {
            Phase.UNQUANTIZED: GraphedCallable(
                lambda: self._passes.codec_pass(adversarial=False, quantize=False), self.device
            ),
            Phase.SPECTRAL: GraphedCallable(lambda: self._passes.codec_pass(adversarial=False), self.device),
            Phase.ADVERSARIAL: GraphedCallable(lambda: self._passes.codec_pass(adversarial=True), self.device),
        }
        self._discriminator_pass = GraphedCallable(self._passes.discriminator_pass, self.device)

    def step(self, phase: Phase) -> dict[str, Tensor]:
        """Run one step of the codec and, in the last phase, of the discriminators. Return this process's figures."""
        self.batch.fill(self.audio, self._random)
        if phase is not Phase.UNQUANTIZED and self._averages is not None and not self._averages.started:
            self._start_codebooks(self._averages)
        output: GeneratorOutput = self._codec_passes[phase]()
        _optimizer_step(self.codec_optimizer, self._passes.codec_parameters())
        if phase is not Phase.UNQUANTIZED and self._averages is not None:
            self._averages.update(output.targets, output.codes)
        if phase is not Phase.ADVERSARIAL:
            return output.figures
        self.batch.generated.copy_(output.samples)
        loss = self._discriminator_pass()
        _optimizer_step(self.discriminator_optimizer, self._passes.discriminator_parameters())
        return output.figures | {"discriminators": loss}

    def save(self, out: Path) -> None:
        """Write codec.safetensors with the published names, and helpers.safetensors for ``--resume``, in bfloat16."""
        if distributed.rank():
            return
        out.mkdir(parents=True, exist_ok=True)
        passes = self._passes
        _save(passes.codec.published(), out / "codec.safetensors")
        helpers = {f"critics.{name}": tensor for name, tensor in passes.discriminators.state_dict().items()}
        helpers |= {f"phonetic.{name}": tensor for name, tensor in passes.phoneme_head.state_dict().items()}
        _save(helpers, out / "helpers.safetensors")

    def _optimizer(self, parameters: list[nn.Parameter], rate: float) -> torch.optim.Optimizer:
        fused = self.device.type == "cuda"
        return torch.optim.AdamW(parameters, rate, (0.8, 0.99), weight_decay=0.01, fused=fused)

    def _start_codebooks(self, averages: CodebookAverages) -> None:
        latents = []
        with torch.no_grad():
            for _ in range(_START_BATCHES):
                latents.append(self._passes.codec.encoder(self.batch.samples))
                self.batch.fill(self.audio, self._random)
        averages.start(torch.cat(latents))


def _optimizer_step(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> None:
    distributed.average_gradients(parameters)
    nn.utils.clip_grad_norm_(parameters, 20.0)
    optimizer.step()


def _save(tensors: Mapping[str, Tensor], file: Path) -> None:
    temporary = file.with_suffix(".part")
    save_file(
        {name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in tensors.items()}, temporary
    )
    temporary.rename(file)


def _resume(path: Path, codec: Codec, others: Mapping[str, nn.Module]) -> None:
    """Load the codec and, unless it comes from a checkpoint folder, the discriminators and the phoneme head."""
    codec.load_published(load_file(path / "codec.safetensors"))
    if not (path / "helpers.safetensors").is_file():
        return
    helpers = {name: tensor.float() for name, tensor in load_file(path / "helpers.safetensors").items()}
    for prefix, module in others.items():
        module.load_state_dict({n.removeprefix(prefix): t for n, t in helpers.items() if n.startswith(prefix)})


def train(options: Options) -> None:
    """Train for the given time. Prints figures every few seconds, and saves every 50 s and at the end."""
    begin = time.monotonic()
    trainer = Trainer(options)
    print(
        f"{time.monotonic() - begin:6.1f} s to start, {trainer.audio.frames / 45000:.2f} h of audio in this process",
        flush=True,
    )
    schedule = TimedSchedule(options.minutes)
    saved = printed = begin = time.monotonic()
    while schedule.progress < 1:
        factor = schedule.step([trainer.codec_optimizer, trainer.discriminator_optimizer])
        figures = trainer.step(phase_at(schedule.progress, options))
        now = time.monotonic()
        if distributed.rank() == 0 and now - printed > _PRINT_INTERVAL:
            text = " ".join(f"{name} {value.item():.3f}" for name, value in figures.items())
            print(f"{now - begin:6.1f} s step {schedule.steps} rate x{factor:.2f} {text}", flush=True)
            printed = now
        if now - saved > _SAVE_INTERVAL:
            trainer.save(options.out)
            saved = now
    trainer.save(options.out)
    print(f"{time.monotonic() - begin:6.1f} s done: {schedule.steps} steps", flush=True)


def _options() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audio", type=Path, required=True, help="folder with shards")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--batch", type=int, default=8, help="pieces per process")
    parser.add_argument("--rate", type=float, default=8e-4)
    parser.add_argument("--open", type=float, default=0.08, help="share of the time before quantization starts")
    parser.add_argument("--alone", type=float, default=0.3, help="share of the time before the discriminators are used")
    parser.add_argument("--crowding", type=float, default=0.05, help="weight of the loss against correlated latents")
    parser.add_argument("--frozen", action="store_true", help="train only Code2Wav, which does not change the codes")
    parser.add_argument("--resume", type=Path, help="folder of an earlier run to continue from")
    parser.add_argument(
        "--recorded", type=float, help="share of people's recordings in the batches; default: as in AUDIO"
    )
    parser.add_argument("--device", default="cuda")
    return Options(**vars(parser.parse_args()))


if __name__ == "__main__":
    train(_options())
