"""The talker's part of a step on the device, and its plugs in vLLM's model runner."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from vllm.v1.worker.gpu.model_states.default import DefaultModelState

from engine.prompt.builder import NO_TOKEN
from engine.talker.fused.dispatch import first_code_sampler
from engine.talker.gpu_step.frame_sampler import FrameSampler
from engine.talker.gpu_step.graphs import PaddedGraphs
from engine.talker.gpu_step.inputs import StepInputs
from engine.talker.gpu_step.slots import Slots
from engine.talker.gpu_step.uploader import Uploader


class TalkerState(DefaultModelState):
    """Slots, input rows and the frame sampler. ``StepRunner`` drives them.

    voices: [max rows of a step, hidden], what voices add to prompt rows. hidden: [max rows of a step, hidden], the
    hidden states of the step. row_ids: int64 [3, max rows], the slots, the text ids and the codec ids of the input rows
    of vLLM's layers (``StepInputs.rows``). Captured graphs read and write them in place.
    """

    def __init__(self, vllm_config: Any, model: Any, encoder_cache: Any, device: torch.device) -> None:
        super().__init__(vllm_config, model, encoder_cache, device)
        talker, pad = model.architecture.talker, model.architecture.text_ids.tts_pad
        context, hidden = self.max_model_len - 1, talker.transformer.hidden
        self.slots = Slots(self.max_num_reqs, context, talker, text_pad=pad, device=device, dtype=self.dtype)
        self.upload = Uploader(device)
        self.voices = torch.zeros(self.max_num_tokens, hidden, device=device, dtype=self.dtype)
        self.hidden = self.voices.clone()
        self.row_ids = torch.full((3, self.max_num_tokens), NO_TOKEN, device=device)
        self.row_ids[0] = self.slots.padding_row
        sampler = FrameSampler(model.head, self.slots, model.residual, first_code_sampler(self.slots))

        def sample(block: Tensor) -> Tensor:
            rows, slots = block
            return sampler(self.hidden.index_select(0, rows), slots).to(torch.int16)

        with torch.inference_mode():
            self.inputs = StepInputs(self.slots, model.text_table, model.codec, self.upload)
            self.sample_frames = PaddedGraphs(sample, model.batches, (0, self.slots.padding_row), self.upload)
        model.input_rows = self.input_rows

    def input_rows(self, voices: Tensor) -> Tensor:
        """Return the input rows [n, hidden] of a step of vLLM's layers. voices: [n, hidden]."""
        slots, text, codec = self.row_ids[:, : len(voices)]
        return self.inputs.rows(slots, text, codec, voices)

    def prepare_inputs(self, input_batch: Any, req_states: Any) -> dict[str, Any]:
        """Return the buffer of voices. vLLM calls this only in the step that measures its memory."""
        return self.prepare_dummy_inputs(input_batch.num_reqs, input_batch.num_tokens_after_padding)

    def prepare_dummy_inputs(self, num_reqs: int, num_tokens: int) -> dict[str, Any]:
        """Return the buffer of voices, for graph capture."""
        return {"inputs_embeds": self.voices[:num_tokens]}

    def custom_sampler(self, sampler: Any) -> tuple[NoSampler, None]:
        """Return a sampler that replaces vLLM's: ``StepRunner`` samples the frames."""
        return NoSampler(), None


class NoSampler:
    """A sampler without work, which vLLM calls only in the step that measures its memory."""

    def __call__(self, logits: Tensor, input_batch: Any) -> None:
        """Do nothing."""
