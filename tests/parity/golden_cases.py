"""The outputs of the reference implementation and their requests; golden/README.md describes the files."""

import json
from pathlib import Path

import numpy as np

from engine.protocol.request import SamplingParams, SpeechRequest, Voice

FOLDER = Path(__file__).parent / "golden"
TALKER_CASES = sorted(file.stem for file in FOLDER.glob("*.npz") if file.stem.startswith(("cv", "vd", "xvec", "icl")))


def load(name: str) -> dict[str, np.ndarray]:
    """Every array of one file; the ``meta`` of a talker case is a dict."""
    with np.load(FOLDER / f"{name}.npz") as file:
        arrays = {key: file[key] for key in file.files}
    if "meta" in arrays:
        arrays["meta"] = json.loads(str(arrays["meta"]))
    return arrays


def request_of(golden: dict[str, np.ndarray]) -> SpeechRequest:
    """The request of a talker case; a clone has the reference implementation's embedding and codes."""
    meta = golden["meta"]
    voice = None
    if meta["task"] == "clone":
        voice = Voice(golden["spk_embedding"], golden.get("ref_codes"), meta.get("ref_text"))
    return SpeechRequest(
        text=meta["text"],
        speaker=meta.get("speaker"),
        voice=voice,
        language=meta["language"],
        instructions=meta.get("instruct"),
        text_layout="full" if meta["non_streaming_mode"] else "streaming",
        sampling=SamplingParams(
            greedy=True,
            max_new_tokens=meta["max_new_tokens"],
            repetition_penalty=meta.get("repetition_penalty"),
        ),
    )
