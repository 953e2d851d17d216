"""Runs batches on vLLM's model, cache, attention and CUDA graphs, without its scheduler and request state.

vLLM's model runner keeps Python objects for every request and updates them in every step. Here a batch is a few arrays:
one upload fills the buffers that vLLM's captured graphs read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from vllm.config.compilation import CUDAGraphMode
from vllm.forward_context import set_forward_context
from vllm.v1.attention.backend import CommonAttentionMetadata

from engine.protocol.request import CODEBOOKS
from engine.talker.fused.layers import MAX_POSITIONS
from engine.talker.gpu_step.inputs import PromptRows
from engine.talker.gpu_step.uploader import Uploader
from engine.talker.vllm.layer_graphs import LayerGraphs, OwnLayers
from engine.talker.vllm.scheduler import Batch
from engine.talker.vllm.state import TalkerState

_NO_POSITION = -1
"""Cache position of a padding row: its keys and values are not stored."""
_MAX_PROMPT_READS = 1 << 15
"""Maximum positions that the prompt rows of a step of ``RowLayers`` read in total; vLLM's attention shares them."""
_CODE_BUFFERS = 3
"""At most two steps are in flight, and the codes of a third are being read."""


class PendingCodes:
    """The codes of a step in flight."""

    def __init__(self, codes: Tensor, copied: torch.cuda.Event | None) -> None:
        self._codes, self._copied = codes, copied

    @property
    def done(self) -> bool:
        """Whether the step has ended, so that ``collect`` returns at once."""
        return self._copied is None or self._copied.query()

    def collect(self) -> NDArray[np.int16]:
        """Wait for the step. Return its codes int16 [n, 16], one row for each utterance that samples.

        The array is overwritten by the third step after it.
        """
        if self._copied is not None:
            self._copied.synchronize()
        return self._codes.numpy()


class StepRunner:
    """Runs one batch at a time, without waiting for it. runner: vLLM's V2 model runner, warmed up and captured.

    Attributes:
        own_layers: run the steps that they can; vLLM's layers run the others.
        device_table: int32 [slots + 1, blocks of a context], the block table on the device.
    """

    def __init__(self, runner: Any, block_table: NDArray[np.int64], block_size: int) -> None:
        """block_table: ``Scheduler.block_table``, which is read for each batch."""
        if list(runner.kernel_block_sizes) != [block_size]:
            raise RuntimeError(
                f"vLLM's attention must use cache blocks of {block_size} positions, got {runner.kernel_block_sizes}"
            )
        self._runner, self._block_size, self.own_layers = runner, block_size, OwnLayers()
        self._state: TalkerState = runner.model_state
        device = self._state.device
        self._upload = Uploader(device)
        self._host_table = block_table
        self._slot_mapping = runner.block_tables.slot_mappings[0]
        self._input_table = runner.block_tables.input_block_tables[0]
        width = self._input_table.shape[1]
        self.device_table = torch.zeros(len(block_table), width, dtype=torch.int32, device=device)
        shape = (len(block_table), CODEBOOKS)
        on_gpu = device.type == "cuda"
        self._code_buffers = [torch.zeros(shape, dtype=torch.int16, pin_memory=on_gpu) for _ in range(_CODE_BUFFERS)]
        self._copied = [torch.cuda.Event() if on_gpu else None for _ in range(_CODE_BUFFERS)]
        self._steps = 0
        self._first_codes = False  # whether the step before sampled the first code of an utterance

    @torch.inference_mode()
    def launch(self, batch: Batch) -> PendingCodes:
        """Start a step."""
        tokens, longest = int(batch.bounds[-1]), int(batch.counts.max())
        graphs = self._own_graphs(batch, tokens, longest)
        if graphs is not None:
            size = graphs.padded_size(tokens)
            sample_rows, sample_slots = self._fill(batch, size)
            return self._sample(batch, graphs(size), sample_rows, sample_slots)
        uniform = longest if longest * len(batch.slots) == tokens else None
        graph = self._runner.cudagraph_manager.dispatch(len(batch.slots), tokens, uniform, 0)
        rows, requests = graph.num_tokens, graph.num_reqs or len(batch.slots)
        sample_rows, sample_slots = self._fill(batch, rows, requests)
        metadata = self._attention_metadata(batch, rows, requests)
        if graph.cg_mode == CUDAGraphMode.FULL:
            hidden = self._runner.cudagraph_manager.run_fullgraph(graph)
        else:
            hidden = self._run_eagerly(metadata, rows)
        return self._sample(batch, hidden, sample_rows, sample_slots)

    def _own_graphs(self, batch: Batch, tokens: int, longest: int) -> LayerGraphs | None:
        """Return which of the own layers run the batch, None if vLLM's do.

        A small batch after a step with first codes runs in vLLM's layers, because Code2Wav then decodes the first chunk
        of an utterance: its kernels run between short ones, but not beside one that holds the GPU for most of a step.
        vLLM's layers give them the most time.
        """
        after_first_codes, self._first_codes = self._first_codes, bool((batch.prefill & batch.samples).any())
        one_launch, rows = self.own_layers
        if one_launch is not None and longest == 1 and tokens <= one_launch.max_rows:
            return None if after_first_codes else one_launch
        if rows is None or tokens > rows.max_rows:
            return None
        ends = batch.starts + batch.counts
        read_by_prompts = int((batch.counts * ends)[batch.prefill].sum())
        return rows if ends.max() <= MAX_POSITIONS and read_by_prompts <= _MAX_PROMPT_READS else None

    def _sample(self, batch: Batch, hidden: Tensor, sample_rows: Tensor, sample_slots: Tensor) -> PendingCodes:
        """Sample frames from the rows of ``hidden``, and start to copy their codes to the host."""
        count = int(batch.samples.sum())
        if not count:
            return PendingCodes(self._code_buffers[0][:0], None)
        return self._read(self._state.sample_frames(hidden, sample_rows, sample_slots)[:count])

    def _fill(self, batch: Batch, rows: int, requests: int | None = None) -> tuple[Tensor, Tensor]:
        """Fill the buffers of the step, padded to ``rows`` input rows.

        requests: number of utterances to pad the buffers of vLLM's attention to; None: own layers, which do not read
        them. Returns the rows to sample from and their slots, padded to a batch size of the frame sampler.
        """
        state, buffers = self._state, self._runner.input_buffers
        state.inputs.update()
        bounds = batch.bounds
        owners = np.repeat(np.arange(len(batch.slots)), batch.counts)
        positions = np.arange(len(owners)) - (bounds[:-1] - batch.starts)[owners]
        slots = batch.slots[owners]
        blocks = self._host_table[slots, positions // self._block_size]
        padding, samples = state.slots.padding_row, np.flatnonzero(batch.samples)
        size = state.sample_frames.padded_size(len(samples)) if len(samples) else 0
        per_utterance = (
            []
            if requests is None
            else [
                _padded(bounds, requests + 1, len(owners)),
                _padded(batch.starts + batch.counts, requests, 0),
                _padded(batch.slots, requests, padding),
            ]
        )
        *uploaded, sample_rows, sample_slots, new_blocks, block_ids = self._upload(
            *per_utterance,
            _padded(positions, rows, 0),
            _padded(blocks * self._block_size + positions % self._block_size, rows, _NO_POSITION),
            _padded(np.where(batch.prefill[owners], padding, slots), rows, padding),
            _padded(slots, rows, padding),
            _padded(bounds[1:][samples] - 1, size, 0),
            _padded(batch.slots[samples], size, padding),
            batch.new_blocks,
            self._host_table[batch.new_blocks],
        )
        per_row = (buffers.positions, self._slot_mapping, state.row_slots, state.table_rows)
        for output, values in zip(per_row, uploaded[-len(per_row) :], strict=True):
            output[: len(values)].copy_(values)
        if len(new_blocks):
            ids = block_ids.view(len(new_blocks), -1).int()
            self.device_table[:, : ids.shape[1]].index_copy_(0, new_blocks, ids)
        if requests is not None:
            starts, lengths, table_rows = uploaded[: -len(per_row)]
            buffers.query_start_loc[: requests + 1].copy_(starts)
            buffers.seq_lens[:requests].copy_(lengths)
            torch.index_select(self.device_table, 0, table_rows, out=self._input_table[:requests])
        prefill = np.flatnonzero(batch.prefill)
        if len(prefill):
            prompts = PromptRows(
                batch.slots[prefill], batch.starts[prefill], bounds[:-1][prefill], batch.counts[prefill]
            )
            state.inputs.fill_prompts(state.prompt_rows, prompts)
        return sample_rows, sample_slots

    def _attention_metadata(self, batch: Batch, rows: int, requests: int) -> dict[str, Any]:
        """Return the attention metadata of each layer, from the filled buffers.

        Building it also fills the buffers of the attention backend that captured graphs read.
        """
        buffers = self._runner.input_buffers
        bounds = _padded(batch.bounds, requests + 1, int(batch.bounds[-1])).astype(np.int32)
        ends = batch.starts + batch.counts
        common = CommonAttentionMetadata(
            query_start_loc=buffers.query_start_loc[: requests + 1],
            query_start_loc_cpu=torch.from_numpy(bounds),
            seq_lens=buffers.seq_lens[:requests],
            seq_lens_cpu_upper_bound=torch.from_numpy(_padded(ends, requests, 0).astype(np.int32)),
            num_reqs=requests,
            num_actual_tokens=rows,
            max_query_len=int(batch.counts.max()),
            max_seq_len=int(ends.max()),
            block_table_tensor=self._input_table[:requests],
            slot_mapping=self._slot_mapping[:rows],
        )
        metadata: dict[str, Any] = {}
        for group in self._runner.attn_groups[0]:
            built = group.get_metadata_builder(0).build(common_prefix_len=0, common_attn_metadata=common)
            metadata.update(dict.fromkeys(group.layer_names, built))
        return metadata

    def _run_eagerly(self, metadata: dict[str, Any], rows: int) -> Tensor:
        """Run a step for which no graph was captured; return the hidden states [rows, hidden]."""
        mapping = dict.fromkeys(metadata, self._slot_mapping[:rows])
        with set_forward_context(metadata, self._runner.vllm_config, num_tokens=rows, slot_mapping=mapping):
            hidden: Tensor = self._runner.model(
                input_ids=None,
                positions=self._runner.input_buffers.positions[:rows],
                inputs_embeds=self._state.prompt_rows[:rows],
            )
        return hidden

    def _read(self, codes: Tensor) -> PendingCodes:
        """Start the copy of codes [n, 16] to the host."""
        self._steps += 1
        number = self._steps % _CODE_BUFFERS
        buffer, copied = self._code_buffers[number][: len(codes)], self._copied[number]
        buffer.copy_(codes.to(torch.int16), non_blocking=True)
        if copied is not None:
            copied.record()
        return PendingCodes(buffer, copied)


def _padded(values: NDArray[np.int64], size: int, padding: int) -> NDArray[np.int64]:
    """Return ``values`` [n], filled up to [size] with ``padding``."""
    result = np.full(size, padding, np.int64)
    result[: len(values)] = values
    return result
