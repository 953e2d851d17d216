"""The talker's model state and sampler for vLLM's model runner: builds the input rows, and samples the frames."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.worker.gpu.model_states.default import DefaultModelState
from vllm.v1.worker.gpu.sample.output import SamplerOutput

from engine.talker.fused.dispatch import first_code_sampler
from engine.talker.gpu_step.frame_sampler import FrameSampler
from engine.talker.gpu_step.graphs import GraphedFrameSampler
from engine.talker.gpu_step.inputs import StepInputs, StepRows, UtteranceState
from engine.talker.gpu_step.slots import Slots

UTTERANCE = "utterance"
"""Key of the ``UtteranceState`` in a request's ``extra_args``."""


class TalkerState(DefaultModelState):
    """Per-request state, indexed by vLLM's request slot. A request keeps its slot until it ends or is preempted."""

    def __init__(self, vllm_config: Any, model: Any, encoder_cache: Any, device: torch.device) -> None:
        super().__init__(vllm_config, model, encoder_cache, device)
        talker, pad = model.architecture.talker, model.architecture.text_ids.tts_pad
        context = self.max_model_len - 1
        self.slots = Slots(self.max_num_reqs, context, talker, text_pad=pad, device=device, dtype=self.dtype)
        self._inputs = StepInputs(self.slots, model.text_table, model.codec, text_pad=pad)
        hidden = talker.transformer.hidden
        self._rows = torch.zeros(self.max_num_tokens, hidden, device=device, dtype=self.dtype)
        self._slot_of: dict[str, int] = {}

    def add_request(self, req_index: int, new_req_data: Any) -> None:
        """Assign a slot to a request. A request that resumes after preemption brings the tokens it has already made."""
        super().add_request(req_index, new_req_data)
        extra = getattr(new_req_data.sampling_params, "extra_args", None) or {}
        utterance = extra.get(UTTERANCE)
        if isinstance(utterance, UtteranceState):  # vLLM's own warm-up requests have none
            frames_made = len(new_req_data.prefill_token_ids) - len(new_req_data.prompt_token_ids)
            self._slot_of[new_req_data.req_id] = req_index
            self._inputs.join(req_index, utterance, frames_made)

    def remove_request(self, req_id: str) -> None:
        """Release the slot of a request that has ended or is preempted."""
        super().remove_request(req_id)
        slot = self._slot_of.pop(req_id, None)
        if slot is not None:
            self._inputs.leave(slot)

    def prepare_inputs(self, input_batch: Any, req_states: Any) -> dict[str, Any]:
        """Write the input rows of a batch into the buffer that the captured graphs read."""
        count, rows = input_batch.num_reqs, self._rows[: input_batch.num_tokens_after_padding]
        bounds = input_batch.query_start_loc_np[: count + 1]
        step = StepRows(
            slots=input_batch.idx_mapping_np[:count],
            device_slots=input_batch.idx_mapping[:count].long(),
            starts=bounds[:-1],
            counts=bounds[1:] - bounds[:-1],
            positions=input_batch.num_computed_tokens_np[:count],
            prefill=input_batch.is_prefilling_np[:count],
        )
        self._inputs.fill(rows, step)
        return {"inputs_embeds": rows}

    def prepare_dummy_inputs(self, num_reqs: int, num_tokens: int) -> dict[str, Any]:
        """Return the same buffer, for graph capture."""
        return {"inputs_embeds": self._rows[:num_tokens]}

    def custom_sampler(self, sampler: Any) -> tuple[TalkerSampler, None]:
        """Return the frame sampler, which replaces vLLM's sampler."""
        first = first_code_sampler(self.slots)
        return TalkerSampler(FrameSampler(self.model.head, self.slots, self.model.residual, first), self, sampler), None


class TalkerSampler:
    """Replaces vLLM's Sampler: takes hidden states, and returns one frame per row.

    Codebook 0 is returned as the sampled token, and all sixteen codes as the token ids of its log probabilities. This
    way vLLM keeps the codes in order, drops them with an aborted request, and copies them to the host asynchronously.
    """

    def __init__(self, frame_sampler: FrameSampler, state: TalkerState, base: Any) -> None:
        self._slots = state.slots
        self._requests = base.req_states
        # No token counts in vLLM: the slots already remember the sampled codes
        self.penalties_state = SimpleNamespace(output_bin_counts=None)
        with torch.inference_mode():
            self._frame_sampler = GraphedFrameSampler(
                frame_sampler,
                state.model.batches,
                padding_row=state.slots.padding_row,
                hidden=state.slots.embedding.shape[1],
                device=state.device,
                dtype=state.dtype,
            )

    def __call__(self, logits: Tensor, input_batch: Any) -> SamplerOutput:
        """Sample frames from hidden states [n, hidden], one row per request; none for a request still in prefill."""
        count = len(logits)
        slot_ids = input_batch.idx_mapping[:count].long()
        ready = input_batch.seq_lens[:count] >= self._requests.prefill_len.gpu[slot_ids]
        codes = self._frame_sampler(logits, slot_ids.masked_fill(~ready, self._slots.padding_row)).to(torch.int32)
        zeros = torch.zeros(count, dtype=torch.int32, device=codes.device)
        return SamplerOutput(
            sampled_token_ids=codes[:, :1].long(),
            logprobs_tensors=LogprobsTensors(codes, zeros[:, None].float(), zeros),
            num_nans=None,
            num_sampled=ready.to(torch.int32),
            num_rejected=zeros,
        )

    def add_request(self, *_: Any) -> None:
        """Do nothing: the model state keeps the requests' parameters."""

    def apply_staged_writes(self) -> None:
        """Do nothing: there are no staged writes."""
