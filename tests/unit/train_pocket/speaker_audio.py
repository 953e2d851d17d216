"""A small synthetic corpus: shards, plan and speakers. A speaker is a pitch and a resonance."""

import json

import numpy as np

from scripts.train_pocket.audio_shards import Clip, ShardWriter
from scripts.train_pocket.utterances import PlannedUtterance, write_plan

RATE = 24000


def write_corpus(folder, speakers, utterances, seconds=1.6):
    random = np.random.default_rng(3)
    writer = ShardWriter(folder, 0, 20 * RATE)
    plan = []
    for number in random.permutation(speakers * utterances).tolist():
        speaker = number % speakers
        frames = round(seconds * RATE / 1920) + number % 3
        writer.add(number, Clip(_voice(random, speaker, frames * 1920), np.zeros((frames, 4), np.int16)))
        plan.append(PlannedUtterance(number, "text", "ps", f"s{speaker:02d}", 1.0, "american"))
    writer.flush()
    write_plan(folder / "plan.jsonl.gz", plan)
    mixes = {f"s{i:02d}": {"low": 1 - i / speakers, "high": i / speakers} for i in range(speakers)}
    table = {name: {"mix": mix, "accent": "american", "kind": "mixed"} for name, mix in mixes.items()}
    (folder / "speakers.json").write_text(json.dumps(table))
    return folder


def _voice(random, speaker, samples):
    time = np.arange(samples) / RATE
    pitch = 90 + 14 * speaker + random.normal(0, 2)
    harmonics = np.arange(1, 30)
    resonance = 500 + 230 * ((7 * speaker) % 11)
    amplitudes = 1 / (1 + ((harmonics * pitch - resonance) / 300) ** 2)
    wave = (amplitudes[:, None] * np.sin(2 * np.pi * pitch * harmonics[:, None] * time)).sum(0)
    wave *= 0.6 + 0.4 * np.sin(2 * np.pi * random.uniform(1, 4) * time)
    return (6000 * wave / np.abs(wave).max() + random.normal(0, 5, samples)).astype(np.int16)
