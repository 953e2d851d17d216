"""The engine's settings. Imports no torch, because the HTTP process reads them too."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from engine.protocol.request import MAX_CHUNK_FRAMES


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class VllmConfig(_StrictModel):
    """The talker on vLLM."""

    prefix_caching: bool = Field(
        True,
        description="Keep the KV cache of prompts for later prompts with the same prefix, which then start sooner. "
        "It uses only positions that no running request needs.",
    )
    cache_positions: int | None = Field(
        None,
        ge=1,
        description="Size of the KV cache in positions, for all requests together; at least `context`. Unset: "
        "`context` for every slot. A smaller cache needs less GPU memory, but when it is full, utterances wait "
        "until another one ends, so their audio is late.",
    )
    reproducible: bool = Field(
        False,
        description="Give the same codes for the same seed, independent of other requests. Every step then computes "
        "`slots` + `prefill_chunk` rows, and frames for all slots. Supported for the published models in bfloat16 on a "
        "GPU of compute capability 9.0.",
    )
    fp8_predictor: bool = Field(
        False,
        description="Quantize the matrices of the code predictor to fp8. Frames are faster for up to 8 concurrent "
        "requests; codes deviate more from the checkpoint's for any number. Supported for the published models in "
        "bfloat16 on a GPU of compute capability 9.0 with 128 multiprocessors; with `reproducible`, for at most 16 "
        "slots.",
    )


class TalkerConfig(_StrictModel):
    """Stage 1: text to codec frames."""

    engine: Literal["auto", "native", "vllm"] = Field(
        "auto",
        description="Implementation: `native` is plain torch, `vllm` needs a GPU, `auto` is vllm on a GPU if vLLM is "
        "installed, else native.",
    )
    slots: int = Field(
        8,
        ge=1,
        description="Maximum requests that decode together. More slots need more memory for the KV cache and make each "
        "step longer; too many cause underruns.",
    )
    context: int = Field(
        4096,
        ge=64,
        description="Maximum positions of one request: prompt and frames. The KV cache grows with it, for every slot. "
        "An utterance that reaches it ends with `finish_reason` `length`; a prompt that exceeds it gets a 400.",
    )
    weights: Literal["auto", "exact", "int8", "int4"] = Field(
        "auto",
        description="Weights of the decoder layers on a CPU: `exact` as in the checkpoint, or quantized to 8 or 4 "
        "bits, which is less memory and usually less time, but other codes. `auto` takes the first of exact, int8 "
        "and int4 that holds real time by a measurement, else the fastest. Measured times are cached. On a GPU it is "
        "exact.",
    )
    prefill_chunk: int | None = Field(
        None,
        ge=1,
        description="Maximum prompt rows of one step. Larger values start new requests sooner, but delay the frames of "
        "the running ones. Unset: 64 for native, 2048 for vllm, 256 for vllm with `reproducible`.",
    )
    vllm: VllmConfig = Field(default_factory=VllmConfig)


class Code2WavConfig(_StrictModel):
    """Stage 2: codec frames to samples."""

    placement: Literal["thread", "process"] = Field(
        "thread", description="Run in a thread of the talker's process, or in a separate process."
    )
    gpu: int | None = Field(
        None, ge=0, description="Index of the GPU for `placement: process`, from 0. Unset: the talker's GPU."
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16", "int16"] = Field(
        "auto",
        description="Data type. `auto` is float16 with Triton on a GPU. On a CPU, `bfloat16` rounds the operands of "
        "the wide convolutions and `int16` those of all convolutions of the decoder blocks. `auto` is "
        "int16 on an x86 CPU with AVX2, bfloat16 where that is much faster and int16 takes over a tenth of the "
        "audio's duration, and float32 on other CPUs and for very small checkpoints.",
    )
    streams: int | None = Field(
        None,
        ge=1,
        description="Maximum streams with decoder state in memory; at least `talker.slots`. Unset: twice "
        "`talker.slots`, because a request leaves the talker before it leaves Code2Wav.",
    )
    first_frames: int = Field(
        1,
        ge=1,
        description="Frames of the first chunk of a stream. More frames delay the first audio, but give the client "
        "more time until the next chunk.",
    )
    max_chunk_frames: int = Field(
        12,
        ge=1,
        le=MAX_CHUNK_FRAMES,
        description="Maximum frames of one chunk. Larger chunks delay other streams, and are hardly faster on a CPU.",
    )
    max_batch_frames: int | None = Field(
        None,
        ge=1,
        description="Maximum frames of all streams in one batch. Larger batches have more throughput on a GPU, but "
        "delay streams that are due next. Unset: 256 with Triton on a GPU, else 24.",
    )
    lead_ms: int = Field(
        240,
        ge=0,
        description="Milliseconds of audio that a client should still have to play when its next chunk is decoded. "
        "Larger values protect against underruns, but decode smaller chunks, so throughput falls. On a GPU, chunks of "
        "fewer than 4 frames wait until at most 60 ms are left.",
    )

    @model_validator(mode="after")
    def _check_gpu(self) -> Self:
        if self.gpu is not None and self.placement != "process":
            raise ValueError(f"gpu needs placement: process, got placement: {self.placement}")
        return self


class EngineConfig(_StrictModel):
    """The engine process."""

    model: str = Field(description="Checkpoint folder, or repository name on the Hugging Face hub.")
    verify_checksums: bool = Field(
        True,
        description="Compare the checkpoint's files with its SHA256SUMS while they are loaded, and files of the "
        "Hugging Face cache with the SHA-256 in their names. Startup fails if a file is damaged.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="`auto` is a GPU if there is one.")
    gpu: int | None = Field(
        None,
        ge=0,
        description="Index of the GPU, from 0, among those in CUDA_VISIBLE_DEVICES. The engine sees no other GPU, so "
        "this excludes `code2wav.gpu`. Unset: GPU 0.",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Data type of the talker. `auto` is float32 on a CPU and bfloat16 on a GPU."
    )
    gpu_memory_gib: float | None = Field(
        None,
        gt=0,
        description="GPU memory in GiB for both stages together. The talker's KV cache on vLLM gets what the rest "
        "leaves. Unset: 90 % of the memory that is free at startup.",
    )
    threads: int | None = Field(
        None,
        ge=1,
        description="Torch threads of each stage. Unset: half the CPU cores, because there are two stages. On a CPU "
        "with `code2wav.placement: thread`, the stages take turns on all cores if that is faster by a measurement. "
        "Measured times are cached. Prompts use the threads of both stages.",
    )
    stall_seconds: float = Field(
        20.0,
        gt=0,
        le=86_400,
        description="Seconds without an answer of the pipeline after which the engine is killed and restarted. After "
        "half of that, new requests are refused and `/ready` answers 503. If it is shorter than the longest step, the "
        "engine is killed while it works, and all running requests fail.",
    )
    load_seconds: float = Field(
        600.0,
        gt=0,
        le=86_400,
        description="Timeout in seconds for loading Code2Wav, and for a whole restart of the engine, which is then "
        "killed and started again. The first start may take longer, because it may download the checkpoint.",
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="Log format of the engine's processes. `sonant serve` uses its own `log_format` instead."
    )
    talker: TalkerConfig = Field(default_factory=TalkerConfig)
    code2wav: Code2WavConfig = Field(default_factory=Code2WavConfig)

    @property
    def code2wav_streams(self) -> int:
        """Maximum number of streams whose decoder state Code2Wav holds at once."""
        return self.code2wav.streams or 2 * self.talker.slots

    @model_validator(mode="after")
    def _check_one_gpu(self) -> Self:
        if self.gpu is not None and self.device == "cpu":
            raise ValueError(f"gpu excludes device: cpu, got gpu: {self.gpu}; leave one of them unset")
        if self.gpu is not None and self.code2wav.gpu is not None:
            raise ValueError(
                f"gpu and code2wav.gpu exclude each other, got gpu: {self.gpu} and code2wav.gpu: {self.code2wav.gpu}; "
                "set one of them"
            )
        return self

    @model_validator(mode="after")
    def _check_streams(self) -> Self:
        if self.code2wav_streams < self.talker.slots:
            raise ValueError(
                f"code2wav.streams must be at least talker.slots ({self.talker.slots}), got {self.code2wav.streams}: "
                "a request without a stream keeps its slot but gets no audio; raise it, or leave it unset"
            )
        return self
