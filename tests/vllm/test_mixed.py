"""Everything at once, at random: clones, live text, listeners that fall behind, cancels, a cache that is too small."""

import random
from copy import deepcopy

import numpy as np
import pytest

from engine.protocol.request import SamplingParams, SpeechRequest, Voice
from tests.support.talkers import WORDS, Generated, native_talker, prepare, speak
from tests.vllm.agreement import assert_agree

UTTERANCES = 10
PATIENCE = 500
"""Rounds without anything to do, after which something is stuck."""


class Scene:
    """Utterances that come, wait and go as the dice say, and what became of each."""

    def __init__(self, talker, checkpoint, seed):
        self.talker, self.checkpoint = talker, checkpoint
        self.dice = random.Random(seed)
        self.embedding = np.random.default_rng(seed).standard_normal(128, dtype=np.float32)
        self.utterances, self.spoken, self.rest = [], [], {}
        self.cancelled, self.held = set(), frozenset()

    def play(self):
        idle = came = 0
        while came < UTTERANCES or self.talker.free_slots < 4:
            if came < UTTERANCES and self.talker.free_slots and self.dice.random() < 0.3:
                self.enter(came)
                came += 1
            self.bring_text()
            if self.dice.random() < 0.15 or idle > 20:
                self.held = frozenset(stream for stream in range(came) if self.dice.random() < 0.3)
            if self.dice.random() < 0.01:
                self.cancel_one()
            idle = 0 if self.step() else idle + 1
            assert idle < PATIENCE

    def enter(self, stream):
        dice, live = self.dice, self.dice.random() < 0.4
        reference = None if live or dice.random() < 0.5 else np.arange(320).reshape(20, 16) % 256
        request = SpeechRequest(
            " ".join(dice.choices(WORDS, k=dice.randint(2, 15))),
            voice=Voice(self.embedding, reference, None if reference is None else "one two three calm"),
            text_layout="streaming" if live else dice.choice(["streaming", "full"]),
            sampling=SamplingParams(
                seed=dice.randrange(1 << 40),
                temperature=dice.choice([0.0, 0.9]),
                top_p=dice.choice([1.0, 0.7]),
                subtalker_top_k=dice.choice([0, 50]),
                max_new_tokens=dice.randint(5, 70),
            ),
        )
        prompt, sampling = prepare(request, self.checkpoint)
        self.utterances.append((deepcopy(prompt), sampling))
        self.spoken.append(Generated())
        if live:
            known = dice.randrange(len(prompt.trailing))
            self.rest[stream], prompt.trailing[known:] = prompt.trailing[known:], []
        self.talker.admit(stream, prompt, sampling, text_open=live)

    def bring_text(self):
        for stream, ids in self.rest.items():
            if ids and self.dice.random() < 0.4:
                count = self.dice.randint(1, 4)
                self.talker.append_text(stream, ids[:count], last=count >= len(ids))
                del ids[:count]

    def cancel_one(self):
        running = {stream for stream, spoken in enumerate(self.spoken) if spoken.finish is None} - self.cancelled
        if running:
            stream = self.dice.choice(sorted(running))
            self.talker.cancel(stream)
            self.cancelled.add(stream)

    def step(self):
        if not self.talker.runnable(self.held):
            return False
        for output in self.talker.step(self.held):
            assert output.stream not in self.held
            spoken = self.spoken[output.stream]
            assert spoken.finish is None
            if output.codes is not None:
                spoken.frames.append(output.codes)
            spoken.finish = output.finish
        return True


@pytest.mark.parametrize(("seed", "prefix_caching"), [(1, True), (2, False)])
def test_every_stream_gets_its_own_codes_and_its_own_end(seed, prefix_caching, vllm_talker, opened):
    checkpoint = opened("1b7-base")
    room = {"context": 128, "slots": 4, "cache_positions": 192}
    scene = Scene(vllm_talker(checkpoint, prefix_caching=prefix_caching, **room), checkpoint, seed)
    scene.play()
    talker = native_talker(checkpoint)
    native = [speak(talker, [utterance])[0] for utterance in scene.utterances]
    assert_agree(scene.spoken, native, scene.utterances, checkpoint, except_for=scene.cancelled)
