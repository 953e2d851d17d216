"""The engine's settings. Imports no torch, because the HTTP process reads them too."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from engine.protocol.request import MAX_CHUNK_FRAMES


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class VllmConfig(_Strict):
    """The talker on vLLM."""

    prefix_caching: bool = Field(True, description="keep what was computed of prompts for those that begin alike")
    cache_positions: int | None = Field(
        None,
        ge=1,
        description="positions that all utterances together have room for, one context at least; "
        "when unset a context for every slot",
    )
    reproducible: bool = Field(
        False,
        description="the same codes for a seed whoever else is served; every step is then as long as slots and "
        "prefill_chunk together, and frames are made for all slots; the published models can in bfloat16 on a GPU of "
        "compute capability 9.0",
    )
    fp8_predictor: bool = Field(
        False,
        description="the code predictor's matrices in eight bits: faster frames for up to 16 utterances at once, and "
        "for any number codes that are further from the checkpoint's own; for the published models in bfloat16 on a "
        "GPU of compute capability 9.0 with 128 multiprocessors; where it is reproducible, with 16 slots at most",
    )


class TalkerConfig(_Strict):
    """Stage 1: text to codec frames."""

    engine: Literal["auto", "native", "vllm"] = Field(
        "auto",
        description="what runs it: native is plain torch; vllm needs a GPU; auto is vllm on a GPU where that is "
        "installed, else native",
    )
    slots: int = Field(8, ge=1, description="requests that decode together")
    context: int = Field(4096, ge=64, description="positions a slot holds: prompt and frames")
    prefill_chunk: int | None = Field(
        None,
        ge=1,
        description="prompt rows that one step reads at most; when unset 64 natively, and with vllm 2048, or 256 "
        "where it is reproducible",
    )
    vllm: VllmConfig = Field(default_factory=VllmConfig)


class Code2WavConfig(_Strict):
    """Stage 2: codec frames to samples."""

    placement: Literal["thread", "process"] = Field(
        "thread", description="beside the talker in one process, or in a process of its own"
    )
    gpu: int | None = Field(
        None, ge=0, description="the GPU of its own process, counted from 0; when unset the talker's"
    )
    dtype: Literal["auto", "float32", "float16"] = Field(
        "auto", description="auto is float16 with Triton on a GPU, and float32 elsewhere"
    )
    streams: int | None = Field(
        None,
        ge=1,
        description="streams whose decoder state is held at once, at least talker.slots; when unset twice as many, "
        "as an utterance leaves the talker before it leaves Code2Wav",
    )
    first_frames: int = Field(1, ge=1, description="frames of a stream's first chunk")
    max_chunk_frames: int = Field(12, ge=1, le=MAX_CHUNK_FRAMES, description="most frames of one chunk")
    max_batch_frames: int | None = Field(
        None,
        ge=1,
        description="most frames of all streams decoded together; when unset 24, and 256 with Triton on a GPU",
    )
    lead_ms: int = Field(
        240, ge=0, description="audio a listener should still have in hand when the next chunk is made"
    )

    @model_validator(mode="after")
    def _gpu_needs_a_process(self) -> Self:
        if self.gpu is not None and self.placement != "process":
            raise ValueError("gpu is that of Code2Wav's own process, which needs placement: process")
        return self


class EngineConfig(_Strict):
    """Everything the engine process needs to start."""

    model: str = Field(description="checkpoint folder, or a Hugging Face hub name")
    verify_checksums: bool = Field(
        True,
        description="compare the checkpoint's files with its SHA256SUMS, and those of the Hugging Face cache with the "
        "SHA-256 that names them, while they are loaded; the start fails where one is damaged",
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto is a GPU where there is one")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of the talker; auto is float32 on a CPU and bfloat16 on a GPU"
    )
    gpu_memory_gib: float | None = Field(
        None,
        gt=0,
        description="of the GPU, for both stages together; the talker's cache on vLLM takes what the rest leaves; "
        "when unset nine tenths of what is free at the start",
    )
    threads: int | None = Field(None, ge=1, description="torch threads of each stage; half the cores when unset")
    stall_seconds: float = Field(
        20.0,
        gt=0,
        le=86_400,
        description="seconds: the engine is killed and restarted when its pipeline has not answered for so long; a "
        "half of it without an answer and new requests are refused and /ready answers 503",
    )
    load_seconds: float = Field(
        600.0,
        gt=0,
        le=86_400,
        description="seconds: a restarted engine that is not ready within them is killed and started again; the first "
        "start may take longer, since it may download the checkpoint",
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="of the engine's processes; the server's log_format counts where there is a server"
    )
    talker: TalkerConfig = Field(default_factory=TalkerConfig)
    code2wav: Code2WavConfig = Field(default_factory=Code2WavConfig)

    @property
    def code2wav_streams(self) -> int:
        """Maximum number of streams whose decoder state Code2Wav holds at once."""
        return self.code2wav.streams or 2 * self.talker.slots

    @model_validator(mode="after")
    def _a_stream_for_every_slot(self) -> Self:
        if self.code2wav_streams < self.talker.slots:
            raise ValueError(
                f"code2wav.streams must be at least talker.slots ({self.talker.slots}), got {self.code2wav.streams}: "
                "an utterance without a stream holds its slot and is not heard; raise it, or leave it unset"
            )
        return self
