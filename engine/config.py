"""The engine's settings. Imports no torch, because the HTTP process reads them too."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from engine.protocol.request import MAX_CHUNK_FRAMES


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class VllmConfig(_StrictModel):
    """The talker on vLLM."""

    prefix_caching: bool = Field(True, description="reuse the KV cache of prompts with the same prefix")
    cache_positions: int | None = Field(
        None,
        ge=1,
        description="size of the KV cache in positions, for all utterances together; at least one context; unset: one "
        "context per slot",
    )
    reproducible: bool = Field(
        False,
        description="generate the same codes for a seed whatever else is in the batch; every step then has slots plus "
        "prefill_chunk rows, and frames are generated for all slots; supported for the published models in bfloat16 on "
        "a GPU of compute capability 9.0",
    )
    fp8_predictor: bool = Field(
        False,
        description="store the code predictor's matrices in fp8: faster with up to 16 concurrent utterances, and "
        "always less exact; supported for the published models in bfloat16 on a GPU of compute capability 9.0 with 128 "
        "multiprocessors; with reproducible, for at most 16 slots",
    )


class TalkerConfig(_StrictModel):
    """Stage 1: text to codec frames."""

    engine: Literal["auto", "native", "vllm"] = Field(
        "auto",
        description="native is plain PyTorch; vllm needs a GPU; auto is vllm on a GPU if it is installed, else native",
    )
    slots: int = Field(8, ge=1, description="maximum number of utterances in a batch")
    context: int = Field(4096, ge=64, description="maximum length of an utterance in positions: prompt and frames")
    prefill_chunk: int | None = Field(
        None,
        ge=1,
        description="maximum prompt rows per step; unset: 64 with native, 2048 with vllm, 256 if reproducible",
    )
    vllm: VllmConfig = Field(default_factory=VllmConfig)


class Code2WavConfig(_StrictModel):
    """Stage 2: codec frames to samples."""

    placement: Literal["thread", "process"] = Field(
        "thread", description="thread: in the talker's process; process: in a separate process"
    )
    gpu: int | None = Field(
        None, ge=0, description="index of the GPU for placement: process, from 0; unset: the talker's GPU"
    )
    dtype: Literal["auto", "float32", "float16"] = Field(
        "auto", description="auto is float16 with Triton on a GPU, else float32"
    )
    streams: int | None = Field(
        None,
        ge=1,
        description="maximum number of streams with decoder state; at least talker.slots; unset: twice talker.slots, "
        "because an utterance leaves the talker before it leaves Code2Wav",
    )
    first_frames: int = Field(1, ge=1, description="frames of a stream's first chunk, 80 ms each")
    max_chunk_frames: int = Field(12, ge=1, le=MAX_CHUNK_FRAMES, description="maximum frames of a chunk")
    max_batch_frames: int | None = Field(
        None,
        ge=1,
        description="maximum total frames of a batch; unset: 256 with Triton on a GPU, else 24",
    )
    lead_ms: int = Field(
        240, ge=0, description="milliseconds of audio that a client has left when its next chunk is due"
    )

    @model_validator(mode="after")
    def _check_gpu(self) -> Self:
        if self.gpu is not None and self.placement != "process":
            raise ValueError(f"gpu needs placement: process, got gpu: {self.gpu} and placement: {self.placement}")
        return self


class EngineConfig(_StrictModel):
    """Everything the engine process needs to start."""

    model: str = Field(description="folder of the checkpoint, or its name on the Hugging Face hub")
    verify_checksums: bool = Field(
        True,
        description="verify the checkpoint's files while they are loaded, against its SHA256SUMS or the SHA-256 in the "
        "Hugging Face cache; a damaged file stops the start",
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto is cuda if there is a GPU, else cpu")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="dtype of the talker; auto is float32 on a CPU and bfloat16 on a GPU"
    )
    gpu_memory_gib: float | None = Field(
        None,
        gt=0,
        description="maximum GPU memory of both stages, in GiB; vLLM's KV cache gets what remains of it; unset: 90 % "
        "of the memory that is free at startup",
    )
    threads: int | None = Field(None, ge=1, description="torch threads per stage; unset: half the cores")
    stall_seconds: float = Field(
        20.0,
        gt=0,
        le=86_400,
        description="the engine is killed and restarted after this many seconds without an answer of its pipeline; "
        "after half of them, new requests and /ready get 503",
    )
    load_seconds: float = Field(
        600.0,
        gt=0,
        le=86_400,
        description="a restarted engine that is not ready after this many seconds is killed and started again; the "
        "first start has no limit, because it may download the checkpoint",
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="log format of the engine's processes; the server overrides it with its own log_format"
    )
    talker: TalkerConfig = Field(default_factory=TalkerConfig)
    code2wav: Code2WavConfig = Field(default_factory=Code2WavConfig)

    @property
    def code2wav_streams(self) -> int:
        """Maximum number of streams whose decoder state Code2Wav holds at once."""
        return self.code2wav.streams or 2 * self.talker.slots

    @model_validator(mode="after")
    def _check_streams(self) -> Self:
        if self.code2wav_streams < self.talker.slots:
            raise ValueError(
                f"code2wav.streams must be at least talker.slots ({self.talker.slots}), got {self.code2wav.streams}: "
                "an utterance without a stream would block its slot; raise it, or leave it unset"
            )
        return self
