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

from engine.device.first_frame import FirstFrame
from engine.prompt.builder import NO_TOKEN
from engine.protocol.request import CODEBOOKS
from engine.talker.fused.layers import MAX_POSITIONS
from engine.talker.gpu_step.graphs import PaddedGraphs, few_sizes
from engine.talker.gpu_step.inputs import PromptRows
from engine.talker.vllm.layer_graphs import NO_POSITION, OwnLayers, RowColumns
from engine.talker.vllm.scheduler import Batch
from engine.talker.vllm.state import TalkerState

_SHORT_PROMPT = 512
"""Maximum positions of a prompt whose layers run in one launch."""
_MAX_PROMPT_READS = 1 << 15
"""Maximum positions that the prompt rows of a step of ``RowLayers`` read in total; vLLM's attention shares them."""
_CODE_BUFFERS = 3
"""At most two steps are in flight, and the codes of a third are being read."""


class PendingCodes:
    """The codes of a step in flight.

    codes: on the host once ``copied`` has passed, an event after their copy; None if the step has ended. on_device:
    int16 [n, 16], which the next step overwrites.
    """

    def __init__(self, codes: Tensor, on_device: Tensor, copied: torch.cuda.Event | None) -> None:
        self._codes, self._on_device, self._copied = codes, on_device, copied

    def first_frame(self, stream: int, row: int) -> FirstFrame | None:
        """Return a row of the codes on the device as the first frame of a stream; None if the step has ended."""
        return None if self._copied is None else FirstFrame(stream, self._on_device, row, self._copied)

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
        self._host_table = block_table
        self._slot_mapping = runner.block_tables.slot_mappings[0]
        self._input_table = runner.block_tables.input_block_tables[0]
        width = self._input_table.shape[1]
        self.device_table = torch.zeros(len(block_table), width, dtype=torch.int32, device=device)
        padding = [self._state.slots.padding_row, *block_table[-1].tolist()]
        with torch.inference_mode():
            self._update_table = PaddedGraphs(self._write_blocks, few_sizes(padding[0]), padding, self._state.upload)
        shape = (len(block_table), CODEBOOKS)
        on_gpu = device.type == "cuda"
        self._code_buffers = [torch.zeros(shape, dtype=torch.int16, pin_memory=on_gpu) for _ in range(_CODE_BUFFERS)]
        self._copied = [torch.cuda.Event() if on_gpu else None for _ in range(_CODE_BUFFERS)]
        self._steps = 0
        self._first_codes = False  # whether the step before sampled the first code of an utterance

    @torch.inference_mode()
    def launch(self, batch: Batch) -> PendingCodes:
        """Start a step."""
        rows = self._prepare(batch)
        graphs = self._own_graphs(batch)
        if graphs is not None:
            graphs(rows)
        else:
            self._run_vllm(batch, rows)
        self._state.inputs.start_joined()  # while the GPU runs the layers
        return self._sample(batch)

    def _prepare(self, batch: Batch) -> RowColumns[NDArray[np.int64]]:
        """Return the input rows of the step. Upload the blocks and the text that its layers need, and the voices."""
        inputs, padding = self._state.inputs, self._state.slots.padding_row
        inputs.append_text()
        if len(batch.new_blocks):
            self._update_table(np.concatenate((batch.new_blocks[None], self._host_table[batch.new_blocks].T)))
        bounds = batch.bounds
        owners = np.repeat(np.arange(len(batch.slots)), batch.counts)
        positions = np.arange(len(owners)) - (bounds[:-1] - batch.starts)[owners]
        tables = batch.slots[owners]
        cache_slots = self._host_table[tables, positions // self._block_size] * self._block_size
        rows = RowColumns(
            positions=positions,
            cache_slots=cache_slots + positions % self._block_size,
            tables=tables,
            slots=np.where(batch.prefill[owners], padding, tables),
            text=np.full(len(owners), NO_TOKEN, np.int64),
            codec=np.full(len(owners), NO_TOKEN, np.int64),
        )
        prefill = np.flatnonzero(batch.prefill)
        if len(prefill):
            prompts = PromptRows(
                batch.slots[prefill], batch.starts[prefill], bounds[:-1][prefill], batch.counts[prefill]
            )
            first = int(bounds[prefill[0]])  # prompts follow the utterances that decode
            rows.text[first:], rows.codec[first:] = inputs.prompt_ids(prompts, self._state.voices)
        return rows

    def _write_blocks(self, block: Tensor) -> Tensor:
        """Write rows of the block table. block: [1 + blocks of a context, n], the slots and their block ids."""
        slots, ids = block[0], block[1:].T.int()
        return self.device_table[:, : ids.shape[1]].index_copy_(0, slots, ids)

    def _own_graphs(self, batch: Batch) -> PaddedGraphs | None:
        """Return which of the own layers run the batch, None if vLLM's do.

        A small batch after a step with first codes does not run in one launch, because Code2Wav then decodes the first
        chunk of an utterance: its kernels run between short ones, but not beside one that holds the GPU for most of a
        step. vLLM's layers give them the most time. Nor do prompts beside utterances that decode, whose chunks they
        would delay.
        """
        tokens = int(batch.bounds[-1])
        after_first_codes, self._first_codes = self._first_codes, bool((batch.prefill & batch.samples).any())
        one_launch, short_prompts, rows = self.own_layers
        if one_launch is not None and not batch.prefill.any() and tokens <= one_launch.max_rows:
            return None if after_first_codes else one_launch
        ends = batch.starts + batch.counts
        alone = batch.prefill.all() and not after_first_codes and ends.max() <= _SHORT_PROMPT
        if short_prompts is not None and alone and tokens <= short_prompts.max_rows:
            return short_prompts
        if rows is None or tokens > rows.max_rows:
            return None
        read_by_prompts = int((batch.counts * ends)[batch.prefill].sum())
        return rows if ends.max() <= MAX_POSITIONS and read_by_prompts <= _MAX_PROMPT_READS else None

    def _run_vllm(self, batch: Batch, rows: RowColumns[NDArray[np.int64]]) -> None:
        """Run the rows through vLLM's layers, as a captured graph if there is one."""
        tokens, longest = int(batch.bounds[-1]), int(batch.counts.max())
        uniform = longest if longest * len(batch.slots) == tokens else None
        graph = self._runner.cudagraph_manager.dispatch(len(batch.slots), tokens, uniform, 0)
        count, requests = graph.num_tokens, graph.num_reqs or len(batch.slots)
        self._fill(batch, rows, count, requests)
        metadata = self._attention_metadata(batch, count, requests)
        if graph.cg_mode == CUDAGraphMode.FULL:
            hidden = self._runner.cudagraph_manager.run_fullgraph(graph)
        else:
            hidden = self._run_eagerly(metadata, count)
        self._state.hidden[: len(hidden)].copy_(hidden)

    def _sample(self, batch: Batch) -> PendingCodes:
        """Sample frames from ``TalkerState.hidden``, and start to copy their codes to the host."""
        samples = np.flatnonzero(batch.samples)
        if not len(samples):
            return PendingCodes(self._code_buffers[0][:0], self._code_buffers[0][:0], None)
        codes = self._state.sample_frames((batch.bounds[1:][samples] - 1, batch.slots[samples]))
        return self._read(codes[: len(samples)])

    def _fill(self, batch: Batch, rows: RowColumns[NDArray[np.int64]], count: int, requests: int) -> None:
        """Fill the buffers of vLLM's layers, padded to ``count`` rows and ``requests`` utterances."""
        state, buffers, tokens = self._state, self._runner.input_buffers, len(rows.positions)
        padding = state.slots.padding_row
        positions, cache_slots, slots, text, codec, starts, lengths, table_rows = state.upload(
            _padded(rows.positions, count, 0),
            _padded(rows.cache_slots, count, NO_POSITION),
            _padded(rows.slots, count, padding),
            _padded(rows.text, count, NO_TOKEN),
            _padded(rows.codec, count, NO_TOKEN),
            _padded(batch.bounds, requests + 1, tokens),
            _padded(batch.starts + batch.counts, requests, 0),
            _padded(batch.slots, requests, padding),
        )
        buffers.positions[:count].copy_(positions)
        self._slot_mapping[:count].copy_(cache_slots)
        torch.stack((slots, text, codec), out=state.row_ids[:, :count])
        buffers.query_start_loc[: requests + 1].copy_(starts)
        buffers.seq_lens[:requests].copy_(lengths)
        torch.index_select(self.device_table, 0, table_rows, out=self._input_table[:requests])

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
                inputs_embeds=self._state.voices[:rows],
            )
        return hidden

    def _read(self, codes: Tensor) -> PendingCodes:
        """Start the copy of codes, int16 [n, 16], to the host."""
        self._steps += 1
        number = self._steps % _CODE_BUFFERS
        buffer, copied = self._code_buffers[number][: len(codes)], self._copied[number]
        buffer.copy_(codes, non_blocking=True)
        if copied is not None:
            copied.record()
        return PendingCodes(buffer, codes, copied)


def _padded(values: NDArray[np.int64], size: int, padding: int) -> NDArray[np.int64]:
    """Return ``values`` [n], filled up to [size] with ``padding``."""
    result = np.full(size, padding, np.int64)
    result[: len(values)] = values
    return result
