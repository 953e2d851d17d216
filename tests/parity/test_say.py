"""``sonant say`` end to end: its dump matches the reference implementation."""

import numpy as np
import pytest
import soundfile

from engine.protocol.request import SAMPLES_PER_FRAME
from tests.parity import golden_cases
from tests.parity.test_encoders import assert_codes_agree, assert_embeddings_agree
from tests.server.commands import run_command
from tests.support.talkers import DEVICE

CASES = ["cv17_instruct_stream", "cv06_ja", "vd17_noinstruct", "xvec17_en", "icl17_short", "icl17_nonstream"]
FLAGS = {"speaker": "--voice", "language": "--language", "instruct": "--instructions", "ref_text": "--ref-text"}
EXACT = {
    "SONANT_REFERENCES__MISMATCHED_TRANSCRIPT": "use",
    "SONANT_ENGINE__DEVICE": DEVICE.type,
    "SONANT_ENGINE__DTYPE": "float32",
    "SONANT_ENGINE__TALKER__ENGINE": "native",
    "SONANT_ENGINE__TALKER__WEIGHTS": "exact",
    "SONANT_ENGINE__CODE2WAV__DTYPE": "float32",
}
"""The settings for which parity holds; a GPU rounds more by default. The references are tones, not words."""


def arguments(meta):
    options = [meta["text"], "--no-normalize", "--greedy", "--max-new-tokens", str(meta["max_new_tokens"])]
    options += ["--text-layout", "full" if meta["non_streaming_mode"] else "streaming"]
    for name, flag in FLAGS.items():
        if meta.get(name):
            options += [flag, meta[name]]
    if "ref" in meta:
        options += ["--ref-audio", str(golden_cases.FOLDER / f"ref_{meta['ref']}.wav")]
    if meta.get("x_vector_only_mode"):
        options.append("--x-vector-only")
    return options


@pytest.mark.parametrize("name", CASES)
def test_the_dump_matches_the_reference(name, checkpoints, tmp_path):
    golden = golden_cases.load(name)
    meta = golden["meta"]
    files = ["--dump", str(tmp_path / "dump.npz"), "-o", str(tmp_path / "speech.wav")]
    done = run_command("say", *arguments(meta), *files, "--model", checkpoints[meta["variant"]], **EXACT)
    assert done.exit_code == 0, done.stderr
    dump = np.load(tmp_path / "dump.npz")
    assert dump["codes"].dtype == np.int64
    assert np.array_equal(dump["codes"], golden["codes"])
    assert dump["wav"].dtype == np.float32
    assert np.abs(dump["wav"] - golden["wav"]).max() < 1e-4
    if "spk_embedding" in golden:
        assert_embeddings_agree(dump["spk_embedding"], golden["spk_embedding"])
    if "ref_codes" in golden:
        assert_codes_agree(dump["ref_codes"], golden["ref_codes"], golden["ref_margins"])
    assert soundfile.info(tmp_path / "speech.wav").frames == len(golden["codes"]) * SAMPLES_PER_FRAME
