"""What vLLM's model runner asks of the talker beside its layers: input rows before them, frames after."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.worker.gpu.model_states.default import DefaultModelState
from vllm.v1.worker.gpu.sample.output import SamplerOutput

from engine.talker.fused.dispatch import first_codes
from engine.talker.gpu_step.graphs import GraphedFrameSampler
from engine.talker.gpu_step.inputs import StepInputs, StepRows, Utterance
from engine.talker.gpu_step.sampler import FrameSampler
from engine.talker.gpu_step.slots import Slots

UTTERANCE = "utterance"
"""Where a request's extra arguments carry its ``Utterance``."""


class TalkerState(DefaultModelState):
    """Per-request state, in rows of vLLM's own request slots, which a request keeps until it ends or is preempted."""

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
        """A request takes a slot; one that was preempted comes back with the tokens it had made."""
        super().add_request(req_index, new_req_data)
        extra = getattr(new_req_data.sampling_params, "extra_args", None) or {}
        utterance = extra.get(UTTERANCE)
        if isinstance(utterance, Utterance):  # vLLM's own warm-up brings none
            drawn = len(new_req_data.prefill_token_ids) - len(new_req_data.prompt_token_ids)
            self._slot_of[new_req_data.req_id] = req_index
            self._inputs.join(req_index, utterance, drawn)

    def remove_request(self, req_id: str) -> None:
        """A request has ended or is preempted."""
        super().remove_request(req_id)
        slot = self._slot_of.pop(req_id, None)
        if slot is not None:
            self._inputs.leave(slot)

    def prepare_inputs(self, input_batch: Any, req_states: Any) -> dict[str, Any]:
        """The input rows of a batch, in the buffer that captured graphs read."""
        count, rows = input_batch.num_reqs, self._rows[: input_batch.num_tokens_after_padding]
        bounds = input_batch.query_start_loc_np[: count + 1]
        step = StepRows(
            slots=input_batch.idx_mapping_np[:count],
            device_slots=input_batch.idx_mapping[:count].long(),
            starts=bounds[:-1],
            counts=bounds[1:] - bounds[:-1],
            positions=input_batch.num_computed_tokens_np[:count],
            reading=input_batch.is_prefilling_np[:count],
        )
        self._inputs.fill(rows, step)
        return {"inputs_embeds": rows}

    def prepare_dummy_inputs(self, num_reqs: int, num_tokens: int) -> dict[str, Any]:
        """The same buffer, for capturing."""
        return {"inputs_embeds": self._rows[:num_tokens]}

    def custom_sampler(self, sampler: Any) -> tuple[TalkerSampler, None]:
        """The frame tail instead of vLLM's sampler."""
        tail = FrameSampler(self.model.head, self.slots, self.model.residual, first_codes(self.slots))
        return TalkerSampler(tail, self, sampler), None


class TalkerSampler:
    """Stands where vLLM's Sampler stands: hidden states in, a frame a row out.

    Codebook 0 leaves as the sampled token, all sixteen codes as the ids that belong to its log probabilities: in
    order, dropped with an aborted request, and copied to the host behind the step's back.
    """

    def __init__(self, tail: FrameSampler, state: TalkerState, base: Any) -> None:
        self._slots = state.slots
        self._requests = base.req_states
        # vLLM counts no tokens: what was drawn before is in the slots
        self.penalties_state = SimpleNamespace(output_bin_counts=None)
        with torch.inference_mode():
            self._tail = GraphedFrameSampler(
                tail,
                state.model.batches,
                scratch=state.slots.scratch,
                hidden=state.slots.frame.shape[1],
                device=state.device,
                dtype=state.dtype,
            )

    def __call__(self, logits: Tensor, input_batch: Any) -> SamplerOutput:
        """Hidden states [n, hidden], one row a request, to frames; a prompt that is not read yet draws none."""
        count = len(logits)
        slots = input_batch.idx_mapping[:count].long()
        ready = input_batch.seq_lens[:count] >= self._requests.prefill_len.gpu[slots]
        codes = self._tail(logits, slots.masked_fill(~ready, self._slots.scratch)).to(torch.int32)
        nothing = torch.zeros(count, dtype=torch.int32, device=codes.device)
        return SamplerOutput(
            sampled_token_ids=codes[:, :1].long(),
            logprobs_tensors=LogprobsTensors(codes, nothing[:, None].float(), nothing),
            num_nans=None,
            num_sampled=ready.to(torch.int32),
            num_rejected=nothing,
        )

    def add_request(self, *_: Any) -> None:
        """Requests' parameters are the state's."""

    def apply_staged_writes(self) -> None:
        """There are none."""
