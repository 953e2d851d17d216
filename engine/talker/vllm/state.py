"""The talker's part of a step on the device, and its plugs in vLLM's model runner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from vllm.v1.worker.gpu.model_states.default import DefaultModelState
from vllm.v1.worker.gpu.sample.output import SamplerOutput

from engine.talker.fused.dispatch import first_code_sampler
from engine.talker.gpu_step.frame_sampler import FrameSampler
from engine.talker.gpu_step.graphs import GraphedFrameSampler
from engine.talker.gpu_step.inputs import StepInputs
from engine.talker.gpu_step.slots import Slots


class TalkerState(DefaultModelState):
    """Slots, input rows and the frame sampler. ``StepRunner`` drives them.

    prompt_rows: [max rows of a step, hidden], input rows that are part of a prompt. row_slots: int64 [max rows], the
    slot of each input row that is decoded, ``slots.padding_row`` for prompt rows and padding. table_rows: int64 [max
    rows], the slot of each input row, also of prompt rows. Captured graphs read them, so they are written in place.
    """

    def __init__(self, vllm_config: Any, model: Any, encoder_cache: Any, device: torch.device) -> None:
        super().__init__(vllm_config, model, encoder_cache, device)
        talker, pad = model.architecture.talker, model.architecture.text_ids.tts_pad
        context, hidden = self.max_model_len - 1, talker.transformer.hidden
        self.slots = Slots(self.max_num_reqs, context, talker, text_pad=pad, device=device, dtype=self.dtype)
        self.inputs = StepInputs(self.slots, model.text_table, model.codec)
        self.prompt_rows = torch.zeros(self.max_num_tokens, hidden, device=device, dtype=self.dtype)
        self.row_slots = torch.full((self.max_num_tokens,), self.slots.padding_row, device=device)
        self.table_rows = self.row_slots.clone()
        first = first_code_sampler(self.slots)
        with torch.inference_mode():
            self.sample_frames = GraphedFrameSampler(
                FrameSampler(model.head, self.slots, model.residual, first),
                model.batches,
                padding_row=self.slots.padding_row,
                hidden=hidden,
                device=device,
                dtype=self.dtype,
            )
        model.input_rows = self.input_rows

    def input_rows(self, prompt_rows: Tensor) -> Tensor:
        """Return the input rows [n, hidden] of a step: decoded rows where there is a slot, else ``prompt_rows``."""
        slots = self.row_slots[: len(prompt_rows)]
        is_prompt = (slots == self.slots.padding_row)[:, None]
        return torch.where(is_prompt, prompt_rows, self.inputs.decode_rows(slots))

    def prepare_inputs(self, input_batch: Any, req_states: Any) -> dict[str, Any]:
        """Return the buffer of prompt rows. vLLM calls this only to warm up."""
        return self.prepare_dummy_inputs(input_batch.num_reqs, input_batch.num_tokens_after_padding)

    def prepare_dummy_inputs(self, num_reqs: int, num_tokens: int) -> dict[str, Any]:
        """Return the buffer of prompt rows, for graph capture."""
        return {"inputs_embeds": self.prompt_rows[:num_tokens]}

    def custom_sampler(self, sampler: Any) -> tuple[NoSampler, None]:
        """Return a sampler that replaces vLLM's: ``StepRunner`` samples the frames."""
        return NoSampler(), None


class NoSampler:
    """A sampler without work, which only vLLM's warm-up calls."""

    penalties_state = SimpleNamespace(output_bin_counts=None)

    def __call__(self, logits: Tensor, input_batch: Any) -> SamplerOutput:
        """Return code 0 for each row."""
        count = len(logits)
        zeros = torch.zeros(count, dtype=torch.int32, device=logits.device)
        return SamplerOutput(
            sampled_token_ids=torch.zeros(count, 1, dtype=torch.int64, device=logits.device),
            logprobs_tensors=None,
            num_nans=None,
            num_sampled=torch.ones_like(zeros),
            num_rejected=zeros,
        )

    def add_request(self, *_: Any) -> None:
        """Do nothing: there is no state."""

    def apply_staged_writes(self) -> None:
        """Do nothing: there are no staged writes."""
