"""How a served model looks to Triton's clients: its metadata, configuration, inputs and outputs."""

from __future__ import annotations

from tritonclient.grpc import model_config_pb2 as config_pb2
from tritonclient.grpc.service_pb2 import ModelConfigResponse, ModelMetadataResponse

from server.errors import ApiError, shown
from server.served_model import ServedModel

VERSION = "1"
"""The only version of every model."""
OUTPUTS = {"waveform": "FP32", "pcm": "INT16"}
"""The output tensors and their data types, the default first: samples in [-1, 1], and 16-bit samples."""

_INPUTS = {
    "input": "BYTES",
    "voice": "BYTES",
    "language": "BYTES",
    "instructions": "BYTES",
    "reference_wav": "FP32",
    "reference_wav_len": "INT32",
    "reference_text": "BYTES",
    "speaker_embedding": "FP32",
    "speed": "FP32",
    "seed": "INT64",
    "max_new_tokens": "INT32",
}
"""The input tensors that the metadata lists. Only ``input`` is required."""
_LISTS = frozenset({"reference_wav", "speaker_embedding", *OUTPUTS})
"""Tensors of any length. All others have one element."""
_CONFIG_TYPES = {
    "BYTES": config_pb2.TYPE_STRING,
    "FP32": config_pb2.TYPE_FP32,
    "INT16": config_pb2.TYPE_INT16,
    "INT32": config_pb2.TYPE_INT32,
    "INT64": config_pb2.TYPE_INT64,
}
_PLATFORM = "sonant"


def check_version(version: str) -> None:
    """Raise ApiError 404 unless ``version`` is empty or exists."""
    if version not in ("", VERSION):
        message = f"model version '{shown(version)}' does not exist; omit it, or use '{VERSION}'"
        raise ApiError(message, status=404, param="model_version", code="model_not_found")


def metadata_of(model: ServedModel) -> ModelMetadataResponse:
    """Return the metadata of ``model``."""
    tensor = ModelMetadataResponse.TensorMetadata
    return ModelMetadataResponse(
        name=model.name,
        versions=[VERSION],
        platform=_PLATFORM,
        inputs=[tensor(name=name, datatype=kind, shape=[_size(name)]) for name, kind in _INPUTS.items()],
        outputs=[tensor(name=name, datatype=kind, shape=[_size(name)]) for name, kind in OUTPUTS.items()],
    )


def config_of(model: ServedModel) -> ModelConfigResponse:
    """Return the configuration of ``model``, which says that it is decoupled: one request has many responses."""
    config = config_pb2.ModelConfig(
        name=model.name,
        platform=_PLATFORM,
        backend=_PLATFORM,
        max_batch_size=0,
        input=[
            config_pb2.ModelInput(
                name=name, data_type=_CONFIG_TYPES[kind], dims=[_size(name)], optional=name != next(iter(_INPUTS))
            )
            for name, kind in _INPUTS.items()
        ],
        output=[
            config_pb2.ModelOutput(name=name, data_type=_CONFIG_TYPES[kind], dims=[_size(name)])
            for name, kind in OUTPUTS.items()
        ],
        model_transaction_policy=config_pb2.ModelTransactionPolicy(decoupled=True),
    )
    return ModelConfigResponse(config=config)


def _size(name: str) -> int:
    return -1 if name in _LISTS else 1
