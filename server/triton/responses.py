"""Inference responses: audio as output tensors, the final response, errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc.service_pb2 import ModelInferResponse, ModelStreamInferResponse

from engine.protocol.samples import to_float32
from server.errors import Failure, shown
from server.triton.model import OUTPUTS, VERSION

_FINAL = "triton_final_response"


class Responses:
    """Makes the responses to one request.

    Args:
        model: the name of the model.
        request_id: the id of the request, which every response repeats.
        outputs: the names of the output tensors.
        ignored: the names of the request's unknown fields, which were ignored.
    """

    def __init__(self, model: str, request_id: str, outputs: tuple[str, ...], ignored: tuple[str, ...] = ()) -> None:
        self._model, self._id, self._outputs, self._ignored = model, request_id, outputs, ignored
        self.sample_rate: int | None = None

    def audio(self, pcm: bytes) -> ModelInferResponse:
        """Return a response with 16-bit samples as output tensors."""
        response = self._response(final=False)
        samples = np.frombuffer(pcm, "<i2")
        for name in self._outputs:
            response.outputs.add(name=name, datatype=OUTPUTS[name], shape=[len(samples)])
            response.raw_output_contents.append(_encoded(name, samples))
        return response

    def final(self, finish_reason: str) -> ModelInferResponse:
        """Return the response without outputs that follows the last audio."""
        response = self._response(final=True)
        response.parameters["finish_reason"].string_param = finish_reason
        return response

    def error(self, failure: Failure) -> ModelStreamInferResponse:
        """Return the response for a request that failed. The stream goes on."""
        response = self._response(final=True)
        for name, value in (("error_code", failure.code), ("error_param", failure.param)):
            if value is not None:
                response.parameters[name].string_param = value
        return ModelStreamInferResponse(error_message=failure.message, infer_response=response)

    def _response(self, *, final: bool) -> ModelInferResponse:
        response = ModelInferResponse(model_name=self._model, model_version=VERSION, id=self._id)
        response.parameters[_FINAL].bool_param = final
        if self.sample_rate is not None:
            response.parameters["sample_rate"].int64_param = self.sample_rate
        if self._ignored:
            response.parameters["ignored_fields"].string_param = ", ".join(map(shown, self._ignored))
        return response


def _encoded(name: str, samples: NDArray[np.int16]) -> bytes:
    return to_float32(samples).astype("<f4").tobytes() if OUTPUTS[name] == "FP32" else samples.tobytes()
