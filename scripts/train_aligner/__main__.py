"""Trains the aligner on the teacher's audio shards, prints its accuracy on held-out speech, and writes its weights."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from scripts.train_aligner.batches import Batches
from scripts.train_aligner.corpus import read_corpus, split
from scripts.train_aligner.evaluate import evaluate
from scripts.train_aligner.examples import write_examples
from scripts.train_aligner.network import AlignerNetwork, export
from scripts.train_aligner.training import Trainer
from server.alignment.aligner import Aligner
from server.alignment.network import Network
from server.alignment.worker import limit_blas_threads

WEIGHTS, EXAMPLES = "english.npz", "examples.npz"
_EXAMPLES = 40
_VOCABULARY = Path(__file__).with_name("vocabulary.json")
"""The symbols of Kokoro-82M v1.0 and their indices, from its config.json (Apache-2.0)."""
_FRAMES = {"cuda": 60_000, "cpu": 6_000}
"""Frames of a batch on each kind of device."""


def main() -> None:
    """Parse the arguments, train and evaluate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audio", type=Path, required=True, help="shards of scripts.train_pocket.teacher")
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, default=_VOCABULARY, help="the teacher's vocab.json")
    parser.add_argument("--out", type=Path, required=True, help=f"folder for {WEIGHTS} and {EXAMPLES}")
    parser.add_argument("--minutes", type=float, default=2.0, help="time limit of the training itself")
    parser.add_argument("--hours", type=float, default=15.0, help="audio that is read")
    parser.add_argument("--frames", type=int, help="frames per batch")
    parser.add_argument("--evaluate", type=int, default=400, help="held-out utterances for the evaluation")
    parser.add_argument("--device", choices=tuple(_FRAMES), default="cuda")
    options = parser.parse_args()
    torch.manual_seed(0)
    limit_blas_threads()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    training, evaluation = split(read_corpus(options.audio, options.plan, options.vocabulary, options.hours))
    print(f"training={len(training)} evaluation={len(evaluation)} utterances", flush=True)
    device = torch.device(options.device)
    network = AlignerNetwork().to(device)
    print(f"parameters={sum(parameter.numel() for parameter in network.parameters())}", flush=True)
    batches = Batches(training, options.frames or _FRAMES[options.device], device)
    trainer = Trainer(network, options.minutes)
    for batch in batches:
        trainer.step(batch)
        if trainer.done:
            break
    options.out.mkdir(parents=True, exist_ok=True)
    export(network, options.out / WEIGHTS)
    write_examples(options.out / EXAMPLES, evaluation[:_EXAMPLES])
    print(evaluate(Aligner(Network.read(options.out / WEIGHTS)), evaluation[: options.evaluate]), flush=True)


if __name__ == "__main__":
    main()
