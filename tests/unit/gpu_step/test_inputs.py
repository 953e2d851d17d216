"""Input rows of a step match the definition (SPEC 3 and 4), however prompts are split and mixed with frames."""

import numpy as np
import pytest
import torch

from engine.models.talker import CodecSide, TextSide
from engine.models.weights import Weights
from engine.prompt.builder import NO_TOKEN
from engine.protocol.request import SamplingParams
from engine.talker.gpu_step.inputs import PromptRows, StepInputs, UtteranceState
from engine.talker.gpu_step.slots import Slots
from engine.talker.gpu_step.uploader import Uploader
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
        self.inputs = StepInputs(self.slots, table, self.codec, Uploader(CPU))
        self.voices = torch.zeros(32, talker.transformer.hidden)

    def utterance(self, prompt, *, text_open=False):
        return UtteranceState(prompt, self.sampling, list(prompt.trailing), text_open)

    def prompt_rows(self, *rows):
        """The input rows for (slot, position, count) of each utterance in prefill."""
        slots, positions, counts = map(np.array, zip(*rows, strict=True))
        prompts = PromptRows(slots, positions, np.cumsum(counts) - counts, counts)
        text, codec = map(torch.from_numpy, self.inputs.prompt_ids(prompts, self.voices))
        padding = torch.full((len(text),), self.slots.padding_row)
        return self.inputs.rows(padding, text, codec, self.voices[: len(text)]).numpy()

    def decode_row(self, slot):
        """The input row of a slot's newest frame, in a step with a prompt row before it."""
        self.start()
        slots, none = torch.tensor([self.slots.padding_row, slot]), torch.tensor([NO_TOKEN, NO_TOKEN])
        rows = self.inputs.rows(slots, none, none, self.voices[:2]).numpy()
        assert_close(rows[1], self.inputs.decode_rows(slots[1:]).numpy()[0])
        return rows[1]

    def start(self):
        """Start what has joined, and append what has arrived."""
        self.inputs.append_text()
        self.inputs.start_joined()

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
        rows.start()
        rows.draw(1, frame)
        assert_close(rows.decode_row(1), rows.frame_row(frame, text))


def test_late_text_is_combined_with_the_frame_that_waited_for_it(rows):
    prompt = prompt_of(rows.checkpoint, text="one two", voice=voice(), text_layout="streaming")
    utterance = rows.utterance(prompt, text_open=True)
    utterance.text, rest = [], utterance.text
    rows.inputs.join(1, utterance)
    rows.start()
    for frame, text in zip(FRAMES, rest, strict=False):
        rows.draw(1, frame)
        utterance.append_text([text], last=text == rest[-1])
        assert_close(rows.decode_row(1), rows.frame_row(frame, text))


def test_a_slot_keeps_nothing_of_its_previous_request(rows):
    long, short = "Hello world, this is a test of the speech server.", "one"
    for text in (long, short):
        prompt = prompt_of(rows.checkpoint, text=text, voice=voice(), text_layout="streaming")
        rows.inputs.join(0, rows.utterance(prompt))
        rows.start()
        for _ in range(4):
            rows.draw(0, FRAMES[0])
        rows.inputs.leave(0)
    assert_close(rows.decode_row(0), rows.frame_row(FRAMES[0], rows.pad))


def test_voices_of_earlier_prompts_are_not_added_again(rows):
    """Rows without a voice follow the rows of a clone."""
    plain = prompt_of(rows.checkpoint, text="one two", voice=voice(), text_layout="streaming")
    rows.inputs.join(0, rows.utterance(in_context(rows)))
    rows.prompt_rows((0, 0, 20))
    rows.inputs.join(1, rows.utterance(plain))
    assert_close(rows.prompt_rows((1, 0, 2)), embed_prompt(plain, rows.checkpoint)[:2])
    assert not rows.voices.any()
    assert_close(rows.prompt_rows((1, 0, len(plain.text))), embed_prompt(plain, rows.checkpoint))


def test_slots_that_start_together_have_their_own_sampling_parameters(rows):
    prompt = prompt_of(rows.checkpoint, text="one two", voice=voice(), text_layout="streaming")
    for slot, temperature in ((3, 0.5), (0, 0.7)):
        params = SamplingParams(seed=slot, temperature=temperature, top_k=slot, subtalker_top_p=0.25)
        sampling = resolve(params, rows.checkpoint.generation)
        rows.inputs.join(slot, UtteranceState(prompt, sampling, list(prompt.trailing), text_open=False))
    rows.start()
    both = [3, 0]
    assert rows.slots.seeds[both].tolist() == both
    assert_close(rows.slots.codebook0_params.column("temperature")[both].numpy(), [0.5, 0.7])
    assert rows.slots.codebook0_params.column("top_k")[both].tolist() == both
    assert rows.slots.residual_params.column("top_p")[both].tolist() == [0.25, 0.25]
