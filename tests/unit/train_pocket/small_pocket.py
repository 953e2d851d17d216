"""A pocket configuration small enough to overfit in seconds, and a corpus for it."""

from pathlib import Path

import torch

from engine.prompt.tokenizer import TextTokenizer
from scripts.train_pocket.config import Pocket, load
from scripts.train_pocket.folder import model_architecture
from scripts.train_pocket.talker.corpus import read_corpus
from scripts.train_pocket.talker.example_sampler import ExampleSampler
from scripts.train_pocket.talker.model import TrainableTalker
from scripts.train_pocket.talker.stand_in import write_stand_in
from scripts.train_pocket.talker.trainer import Trainer

_TALKER = {"hidden": 96, "intermediate": 192, "layers": 2, "heads": 2, "kv_heads": 1, "head_dim": 32}
_PREDICTOR = {"hidden": 64, "intermediate": 128, "layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 32}


def small_pocket() -> Pocket:
    pocket = load()
    settings = pocket.model_dump()
    settings["talker"] |= {"text_hidden": 32, "model": _TALKER, "predictor": _PREDICTOR}
    settings["codec"] |= {
        "decoder": {
            "width": 32,
            "latent": 32,
            "hidden": 32,
            "intermediate": 32,
            "layers": 1,
            "head_dim": 32,
            "window": 8,
        },
        "encoder": {"filters": 2, "hidden": 32, "intermediate": 32, "layers": 1, "head_dim": 32},
    }
    settings["codec"]["codebook_dim"] = 16
    settings["speaker_encoder"] = {"channels": [16, 16, 16, 16, 32], "attention": 8, "squeeze": 8}
    settings["talker_training"] |= {"dropout": 0.0, "warm_up": 20, "learning_rate": 4e-3, "average": 0.9}
    settings["talker_training"]["draws"] |= {"joined": 0.0, "altered_text": 0.0, "code_noise": 0.0}
    settings["talker_training"]["draws"] |= {"corrupted": 0.0, "other_xvector": 0.0, "merge_dropout": 0.0}
    settings["talker_training"]["draws"] |= {"reference_frames": (6, 40)}
    return Pocket.model_validate(settings)


def stand_in_drawing(pocket: Pocket, folder: Path, utterances: int) -> ExampleSampler:
    """Write a corpus of short utterances by few speakers to ``folder``, and read it again."""
    write_stand_in(folder, pocket, utterances=utterances, speakers=1, words=(2, 4))
    names = list(pocket.voices.named)
    corpus = read_corpus(folder / "plan.jsonl.gz", folder / "codes", folder / "xvectors.npz", named=names)
    model, tokenizer = model_architecture(pocket), TextTokenizer(folder / "tokenizer")
    return ExampleSampler(corpus, model, tokenizer, pocket.talker_training.draws, pocket.talker.xvector_scale)


def new_trainer(pocket: Pocket) -> Trainer:
    torch.manual_seed(1)
    settings = pocket.talker_training
    model = TrainableTalker(
        model_architecture(pocket).talker, positions=512, dropout=settings.dropout, dtype=torch.float32
    )
    return Trainer(model, settings)
