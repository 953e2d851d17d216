"""The native talker matches the reference implementation, from prompts to codes."""

import numpy as np
import pytest
import torch

from engine.checkpoint.folder import open_checkpoint
from engine.protocol.request import FinishReason
from engine.talker.native.talker import NativeTalker
from tests.parity import golden_cases
from tests.support.talkers import exact_layers, native_talker, prepare, speak


@pytest.fixture(scope="module", params=["plain", "compiled"])
def layers(request):
    with exact_layers(request.param):
        yield


@pytest.fixture(scope="module")
def talkers(checkpoints, layers):
    loaded = {}

    def talker_of(variant):
        if variant not in loaded:
            checkpoint = open_checkpoint(str(checkpoints[variant]))
            loaded[variant] = checkpoint, native_talker(checkpoint)
        return loaded[variant]

    return talker_of


@pytest.mark.parametrize("name", golden_cases.TALKER_CASES)
def test_codes_match_the_reference(name, talkers):
    golden = golden_cases.load(name)
    checkpoint, talker = talkers(golden["meta"]["variant"])
    [spoken] = speak(talker, [prepare(golden_cases.request_of(golden), checkpoint)])
    assert np.array_equal(spoken.codes, golden["codes"])
    eos = checkpoint.model.talker.ids.eos
    assert spoken.finish is (FinishReason.STOP if golden["cb0"][-1] == eos else FinishReason.LENGTH)


class _Recorder:
    """Wraps a talker and its code predictor, and records the logits of both."""

    def __init__(self, talker: NativeTalker) -> None:
        self.talker_logits: list[torch.Tensor] = []
        self.predictor_logits: list[torch.Tensor] = []
        self._predictor, self._logits = talker._predictor, talker._model.logits
        talker._predictor, talker._model.logits = self._predict, self._head

    def _head(self, hidden):
        logits = self._logits(hidden)
        self.talker_logits.append(logits[0].clone())
        return logits

    def _predict(self, hidden, first, draw):
        def recorded(book, logits):
            self.predictor_logits.append(logits[0].clone())
            return draw(book, logits)

        return self._predictor(hidden, first, recorded)


@pytest.mark.parametrize("name", [n for n in golden_cases.TALKER_CASES if "cp_logits" in golden_cases.load(n)])
def test_logits_match_the_reference_within_1e_4(name, checkpoints, layers):
    golden = golden_cases.load(name)
    checkpoint = open_checkpoint(str(checkpoints[golden["meta"]["variant"]]))
    talker = native_talker(checkpoint)
    recorder = _Recorder(talker)
    speak(talker, [prepare(golden_cases.request_of(golden), checkpoint)])
    steps, frames = len(golden["talker_logits"]), len(golden["cp_logits"])
    talker_logits = torch.stack(recorder.talker_logits[:steps]).cpu().numpy()
    predicted = torch.stack(recorder.predictor_logits[: frames * 15]).unflatten(0, (frames, 15)).cpu().numpy()
    assert np.abs(talker_logits - golden["talker_logits"]).max() < 1e-4
    assert np.abs(predicted - golden["cp_logits"]).max() < 1e-4
