"""Input rows of a step match the definition (SPEC 3 and 4), however prompts are split and mixed with frames."""

import numpy as np
import pytest
import torch

from engine.models.talker import CodecSide, TextSide
from engine.models.weights import Weights
from engine.protocol.request import SamplingParams
from engine.talker.gpu_step.inputs import PromptRows, StepInputs, UtteranceState
from engine.talker.gpu_step.slots import Slots
from engine.talker.requests import resolve
from tests.unit.prompt_requests import FIVE_FRAMES, prompt_of, voice
from tests.unit.prompt_rows import embed_prompt, project_text

CPU = torch.device("cpu")
FRAMES = [np.arange(16, dtype=np.int16) + frame for frame in range(3)]


class Rows:
    """Step inputs for four slots of a checkpoint."""

    def __init__(self, checkpoint):
        self.checkpoint, talker = checkpoint, checkpoint.model.talker
        self.pad = checkpoint.model.text_ids.tts_pad
        self.sampling = resolve(SamplingParams(seed=1), checkpoint.generation)
        weights = Weights(checkpoint.tensors("talker."), CPU, torch.float32)
        self.slots = Slots(4, 64, talker, text_pad=self.pad, device=CPU, dtype=torch.float32)
        text = TextSide(weights)
        table = torch.cat((text.rows(slice(None)), torch.zeros(1, talker.transformer.hidden)))
        self.codec = CodecSide(weights, talker)
        self.inputs = StepInputs(self.slots, table, self.codec)

    def utterance(self, prompt, *, text_open=False):
        return UtteranceState(prompt, self.sampling, list(prompt.trailing), text_open)

    def prompt_rows(self, *rows):
        """The input rows for (slot, position, count) of each utterance in prefill."""
        slots, positions, counts = map(np.array, zip(*rows, strict=True))
        out = torch.full((int(counts.sum()), self.slots.embedding.shape[1]), float("nan"))
        self.inputs.update()
        self.inputs.fill_prompts(out, PromptRows(slots, positions, np.cumsum(counts) - counts, counts))
        return out.numpy()

    def decode_row(self, slot):
        """The input row of a slot's newest frame."""
        self.inputs.update()
        return self.inputs.decode_rows(torch.tensor([slot])).numpy()[0]

    def draw(self, slot, frame):
        """Store a frame as the frame sampler does."""
        self.slots.embedding[slot] = self.codec.frame_rows(torch.from_numpy(frame[None].astype(np.int64)))[0]
        self.slots.frames_made[slot] += 1

    def frame_row(self, frame, text):
        """The input row of a frame, from the definition."""
        embedded = self.codec.frame_rows(torch.from_numpy(frame[None].astype(np.int64)))[0].numpy()
        return embedded + project_text([text], self.checkpoint)[0]


def assert_close(one, other):
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@pytest.fixture
def rows(opened):
    return Rows(opened["0b6-base"])


def in_context(rows, layout="streaming"):
    cloned = voice(codes=FIVE_FRAMES, transcript="one two three")
    return prompt_of(rows.checkpoint, text="Hello world, this is a test.", voice=cloned, text_layout=layout)


@pytest.mark.parametrize("layout", ["streaming", "full"])
@pytest.mark.parametrize("piece", [1, 4, 100])
def test_a_prompt_can_be_read_in_pieces(rows, layout, piece):
    prompt = in_context(rows, layout)
    rows.inputs.join(2, rows.utterance(prompt))
    length = len(prompt.text)
    cuts = [(2, first, min(piece, length - first)) for first in range(0, length, piece)]
    assert_close(np.concatenate([rows.prompt_rows(cut) for cut in cuts]), embed_prompt(prompt, rows.checkpoint))


def test_prompts_share_a_step(rows):
    one = prompt_of(rows.checkpoint, text="one two", voice=voice(), text_layout="streaming")
    other = in_context(rows)
    rows.inputs.join(0, rows.utterance(one))
    rows.inputs.join(3, rows.utterance(other))
    mixed = rows.prompt_rows((3, 2, 9), (0, 0, len(one.text)))
    assert_close(mixed[:9], embed_prompt(other, rows.checkpoint)[2:11])
    assert_close(mixed[9:], embed_prompt(one, rows.checkpoint))


def test_frames_are_combined_with_their_text_and_then_with_padding(rows):
    prompt = prompt_of(rows.checkpoint, text="one two", voice=voice(), text_layout="streaming")
    rows.inputs.join(1, rows.utterance(prompt))
    for frame, text in zip(FRAMES, [*prompt.trailing, rows.pad], strict=True):
        rows.inputs.update()
        rows.draw(1, frame)
        assert_close(rows.decode_row(1), rows.frame_row(frame, text))


def test_late_text_is_combined_with_the_frame_that_waited_for_it(rows):
    prompt = prompt_of(rows.checkpoint, text="one two", voice=voice(), text_layout="streaming")
    utterance = rows.utterance(prompt, text_open=True)
    utterance.text, rest = [], utterance.text
    rows.inputs.join(1, utterance)
    rows.inputs.update()
    for frame, text in zip(FRAMES, rest, strict=False):
        rows.draw(1, frame)
        utterance.append_text([text], last=text == rest[-1])
        assert_close(rows.decode_row(1), rows.frame_row(frame, text))


def test_a_slot_keeps_nothing_of_its_previous_request(rows):
    long, short = "Hello world, this is a test of the speech server.", "one"
    for text in (long, short):
        prompt = prompt_of(rows.checkpoint, text=text, voice=voice(), text_layout="streaming")
        rows.inputs.join(0, rows.utterance(prompt))
        rows.inputs.update()
        for _ in range(4):
            rows.draw(0, FRAMES[0])
        rows.inputs.leave(0)
    assert_close(rows.decode_row(0), rows.frame_row(FRAMES[0], rows.pad))
