"""Randomized load: clones, live text, blocked streams, cancellations, and a cache that is too small for all slots."""

import random
from copy import deepcopy

import numpy as np
import pytest

from engine.protocol.request import SamplingParams, SpeechRequest, Voice
from tests.support.talkers import WORDS, Generated, native_talker, outputs, prepare, speak
from tests.vllm.agreement import assert_agree

UTTERANCES = 10
MAX_IDLE_ROUNDS = 500
"""Rounds without a step after which the talker counts as stuck."""


class RandomLoad:
    """Utterances that join, wait and cancel at random, and their outputs."""

    def __init__(self, talker, checkpoint, seed):
        self.talker, self.checkpoint = talker, checkpoint
        self.rng = random.Random(seed)
        self.embedding = np.random.default_rng(seed).standard_normal(128, dtype=np.float32)
        self.utterances, self.spoken, self.rest = [], [], {}
        self.cancelled, self.blocked = set(), frozenset()

    def run(self):
        idle = admitted = 0
        while admitted < UTTERANCES or self.talker.free_slots < 4:
            if admitted < UTTERANCES and self.talker.free_slots and self.rng.random() < 0.3:
                self.admit(admitted)
                admitted += 1
            self.append_some_text()
            if self.rng.random() < 0.15 or idle > 20:
                self.blocked = frozenset(stream for stream in range(admitted) if self.rng.random() < 0.3)
            if self.rng.random() < 0.01:
                self.cancel_one()
            idle = 0 if self.step() else idle + 1
            assert idle < MAX_IDLE_ROUNDS

    def admit(self, stream):
        rng, live = self.rng, self.rng.random() < 0.4
        reference = None if live or rng.random() < 0.5 else np.arange(320).reshape(20, 16) % 256
        request = SpeechRequest(
            " ".join(rng.choices(WORDS, k=rng.randint(2, 15))),
            voice=Voice(self.embedding, reference, None if reference is None else "one two three calm"),
            text_layout="streaming" if live else rng.choice(["streaming", "full"]),
            sampling=SamplingParams(
                seed=rng.randrange(1 << 40),
                temperature=rng.choice([0.0, 0.9]),
                top_p=rng.choice([1.0, 0.7]),
                subtalker_top_k=rng.choice([0, 50]),
                max_new_tokens=rng.randint(5, 70),
            ),
        )
        prompt, sampling = prepare(request, self.checkpoint)
        self.utterances.append((deepcopy(prompt), sampling))
        self.spoken.append(Generated())
        if live:
            known = rng.randrange(len(prompt.trailing))
            self.rest[stream], prompt.trailing[known:] = prompt.trailing[known:], []
        self.talker.admit(stream, prompt, sampling, text_open=live)

    def append_some_text(self):
        for stream, ids in self.rest.items():
            if ids and self.rng.random() < 0.4:
                count = self.rng.randint(1, 4)
                self.talker.append_text(stream, ids[:count], last=count >= len(ids))
                del ids[:count]

    def cancel_one(self):
        running = {stream for stream, spoken in enumerate(self.spoken) if spoken.finish is None} - self.cancelled
        if running:
            stream = self.rng.choice(sorted(running))
            self.talker.cancel(stream)
            self.cancelled.add(stream)

    def step(self):
        if not self.talker.runnable(self.blocked):
            return False
        for output in outputs(self.talker.step(self.blocked)):
            spoken = self.spoken[output.stream]
            assert spoken.finish is None
            if output.codes is not None:
                spoken.frames.append(output.codes)
            spoken.finish = output.finish
        return True


@pytest.mark.parametrize(("seed", "prefix_caching"), [(1, True), (2, False)])
def test_every_stream_gets_its_own_codes_and_its_own_end(seed, prefix_caching, vllm_talker, opened):
    checkpoint = opened("1b7-base")
    limits = {"context": 128, "slots": 4, "cache_positions": 192}
    load = RandomLoad(vllm_talker(checkpoint, prefix_caching=prefix_caching, **limits), checkpoint, seed)
    load.run()
    talker = native_talker(checkpoint)
    native = [speak(talker, [utterance])[0] for utterance in load.utterances]
    assert_agree(load.spoken, native, load.utterances, checkpoint, except_for=load.cancelled)
