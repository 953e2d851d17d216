"""Recordings of speech and their transcripts: what is completed, refused, trimmed and cut before a voice is cloned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from engine.cloning.resampling import resample
from scripts.judge.clips import read_clips
from tests.server.commands import run_command
from tests.server.live_client import receive_utterance, send_utterance, session
from tests.server.recordings import RATE, data_url, wav
from tests.server.serving import LOOPING, ROOT, SPEECH, Serving, speech, write_config

SAMPLES = ROOT / "docs" / "samples"
TRANSCRIPT = "Two foxes crossed the garden while we were having breakfast."
UNCOMPLETED = TRANSCRIPT.removesuffix(".")
PLACEHOLDER = "What is said in it."
"""The transcript in the examples of the documentation: too short for any recording of a few seconds."""
STORY = {
    "ava-teacher": "The ferry leaves the harbour at noon and comes back before dark.",
    "adam-teacher": "A thin layer of ice covered the pond behind the school.",
    "emma-teacher": "His brother repairs violins in a small shop near the bridge.",
}


def sample(name: str) -> NDArray[np.float32]:
    """A recording of speech in the documentation, at ``RATE``."""
    samples, rate = sf.read(SAMPLES / f"{name}.ogg", dtype="float32")
    return resample(samples, rate, RATE)


@pytest.fixture(scope="module")
def recording() -> NDArray[np.float32]:
    return sample("clone1-reference")


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with the trained checkpoint, which drops transcripts that do not match their recording."""
    references = {"mismatched_transcript": "x_vector"}
    config = write_config(tmp_path_factory.mktemp("speaking"), ROOT / "models" / "pocket", references=references)
    with Serving(config) as server:
        yield server.ready()


def padded(samples: NDArray[np.float32], seconds: float) -> NDArray[np.float32]:
    return np.pad(samples, (0, round(seconds * RATE)))


def clone(serving: Serving, name: str, **fields: Any) -> tuple[bytes, str | None]:
    """Return the speech of a clone, and what the outcome says about its reference."""
    with serving.client() as client:
        response = client.post(SPEECH, json=speech(**fields), headers={"X-Request-Id": name})
        assert response.status_code == 200, response.text
        serving.wait_for(f"id={name} ")
        outcome = client.get(f"{SPEECH}/{name}").raise_for_status().json()
    return response.content, outcome.get("reference")


def loud_seconds(pcm: bytes) -> float:
    """Return for how long speech is louder than -40 dBFS, in windows of 10 ms at 24 kHz."""
    windows = np.frombuffer(pcm, np.int16)[: len(pcm) // 480 * 240].reshape(-1, 240) / 32768
    return float((np.square(windows).mean(1) > 1e-4).sum() / 100)


def test_a_missing_final_stop_changes_nothing(serving: Serving, recording: NDArray[np.float32]) -> None:
    complete, _ = clone(serving, "with-stop", ref_audio=data_url(recording), ref_text=TRANSCRIPT)
    completed, changes = clone(serving, "without-stop", ref_audio=data_url(recording), ref_text=UNCOMPLETED)
    assert completed == complete
    assert changes is not None
    assert "stop added" in changes


def test_normalize_false_leaves_the_transcript_as_it_is(serving: Serving, recording: NDArray[np.float32]) -> None:
    fields = {"ref_audio": data_url(recording), "normalize": False}
    complete, _ = clone(serving, "exact-with-stop", **fields, ref_text=TRANSCRIPT)
    exact, changes = clone(serving, "exact-without-stop", **fields, ref_text=UNCOMPLETED)
    assert exact != complete
    assert "stop added" not in (changes or "")


def test_markup_in_a_transcript_is_not_read(serving: Serving, recording: NDArray[np.float32]) -> None:
    plain, _ = clone(serving, "plain-transcript", ref_audio=data_url(recording), ref_text=TRANSCRIPT)
    marked = TRANSCRIPT.replace("foxes", "**foxes**") + " \U0001f98a"
    assert clone(serving, "marked-transcript", ref_audio=data_url(recording), ref_text=marked)[0] == plain


@pytest.mark.parametrize("transcript", [PLACEHOLDER, f"{TRANSCRIPT} " * 3], ids=["too short", "too long"])
def test_a_transcript_that_cannot_match_is_refused(
    client: httpx.Client, recording: NDArray[np.float32], transcript: str
) -> None:
    request = client.post(SPEECH, json=speech(ref_audio=data_url(recording), ref_text=transcript))
    form = {"name": "anna", "ref_text": transcript}
    voice = client.post("/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", wav(recording))})
    for response in (request, voice):
        assert response.status_code == 400
        error = response.json()["error"]
        assert (error["param"], error["code"]) == ("ref_text", "transcript_mismatch")
        assert f"got {len(transcript.strip())}" in error["message"]


def test_a_transcript_in_a_script_that_the_checkpoint_cannot_read_is_refused(
    speaking: Serving, recording: NDArray[np.float32]
) -> None:
    fields = {"ref_text": "Две лисы перешли через сад, пока мы завтракали."}
    with speaking.client() as client:
        cloned = client.post(SPEECH, json=speech(ref_audio=data_url(recording), **fields))
        stored = client.post(
            "/v1/audio/voices",
            data={"name": "foxes", **fields},
            files={"audio_sample": ("a.wav", wav(recording), "audio/wav")},
        )
    for response in (cloned, stored):
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "unsupported_script"


def test_a_stored_voice_completes_its_transcript_in_each_request(
    serving: Serving, client: httpx.Client, recording: NDArray[np.float32]
) -> None:
    form = {"name": "fox", "ref_text": UNCOMPLETED}
    card = client.post("/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", wav(recording))}).json()
    try:
        assert (card["ref_text"], card["in_context"]) == (UNCOMPLETED, True)
        stored, changes = clone(serving, "stored-fox", voice="fox")
        assert stored == clone(serving, "sent-fox", ref_audio=data_url(recording), ref_text=TRANSCRIPT)[0]
        assert changes == "stop added"
    finally:
        client.delete("/v1/audio/voices/fox")


def test_silence_after_the_speech_is_not_continued(speaking: Serving, recording: NDArray[np.float32]) -> None:
    fields = {"input": "Please write your name at the top.", "ref_text": TRANSCRIPT, "max_new_tokens": 60}
    audio, changes = clone(speaking, "trimmed", ref_audio=data_url(padded(recording, 3.0)), **fields)
    assert loud_seconds(audio) > 1.0
    assert changes is not None
    assert changes.startswith("trimmed 3.")


def seconds_before_speech(pcm: bytes) -> float:
    """Return the time before the first 10 ms that are louder than -50 dBFS, at 24 kHz."""
    windows = np.frombuffer(pcm, np.int16)[: len(pcm) // 480 * 240].reshape(-1, 240) / 32768
    return float(np.argmax(np.square(windows).mean(1) > 1e-5) / 100)


@pytest.mark.parametrize("speaker", ["unseen0000", "unseen0018"])
def test_a_clone_in_context_does_not_begin_with_the_pause_after_its_reference(speaking: Serving, speaker: str) -> None:
    [clip] = [each for each in read_clips().unseen if each.speaker == speaker]
    samples, rate = sf.read(clip.file, dtype="float32")
    fields = {"ref_audio": data_url(resample(samples, rate, RATE)), "ref_text": clip.text, "seed": 1}
    text = "The bus was late again, so I walked to the office in the rain."
    audio, _ = clone(speaking, f"onset-{speaker}", input=text, **fields)
    assert loud_seconds(audio) > 1.0
    assert seconds_before_speech(audio) <= 0.15
    for name, begin in (("pause", "[pause 1s] "), ("dots", "... [pause 1s] ")):
        audio, _ = clone(speaking, f"{name}-{speaker}", input=begin + text, **fields)
        assert 0.9 < seconds_before_speech(audio) < 1.15


def test_a_live_session_with_a_voice_in_context_keeps_a_pause_at_its_beginning(
    serving: Serving, client: httpx.Client, recording: NDArray[np.float32]
) -> None:
    form = {"name": "fox", "ref_text": TRANSCRIPT}
    client.post("/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", wav(recording))}).raise_for_status()
    try:
        with session(serving, voice="fox", task_type="Base", **LOOPING) as socket:
            send_utterance(socket, "[pause 1s] Hello there, my friend.", 100)
            samples = np.frombuffer(receive_utterance(socket)[0], "<i2")
    finally:
        client.delete("/v1/audio/voices/fox")
    assert not samples[:24_000].any()
    assert samples[24_000:].any()


def test_say_removes_the_pause_after_a_reference(tmp_path: Path) -> None:
    [clip] = [each for each in read_clips().unseen if each.speaker == "unseen0000"]
    output, pocket = tmp_path / "clone.wav", ROOT / "models" / "pocket"
    reference = ["--model", pocket, "--ref-audio", clip.file, "--ref-text", clip.text]
    text = "The bus was late again, so I walked to the office in the rain."
    done = run_command("say", text, "-o", output, *reference, "--seed", "1")
    assert done.exit_code == 0, done.stderr
    samples, _ = sf.read(output, dtype="int16")
    assert loud_seconds(samples.tobytes()) > 1.0
    assert seconds_before_speech(samples.tobytes()) <= 0.15


def test_a_clone_whose_transcript_does_not_match_is_audible(speaking: Serving, recording: NDArray[np.float32]) -> None:
    fields = {"input": "Hello there.", "ref_text": PLACEHOLDER, "max_new_tokens": 50}
    audio, changes = clone(speaking, "placeholder", ref_audio=data_url(recording), **fields)
    assert loud_seconds(audio) > 0.3
    assert changes is not None
    assert changes.startswith("x-vector only (transcript_mismatch)")


def test_a_long_recording_is_cut_with_its_transcript(speaking: Serving) -> None:
    story = np.concatenate([sample(name) for name in STORY])
    fields = {"input": "Please write your name at the top.", "max_new_tokens": 60}
    audio, changes = clone(speaking, "cut", ref_audio=data_url(story), ref_text=" ".join(STORY.values()), **fields)
    assert loud_seconds(audio) > 1.0
    assert changes is not None
    assert changes.startswith(f"cut from {len(story) / RATE:.1f} to ")


def test_a_voice_stored_from_a_long_recording_has_the_transcript_of_its_beginning(speaking: Serving) -> None:
    story = np.concatenate([sample(name) for name in STORY])
    form = {"name": "story", "ref_text": " ".join(STORY.values())}
    with speaking.client() as client:
        files = {"audio_sample": ("a.wav", wav(story))}
        card = client.post("/v1/audio/voices", data=form, files=files).raise_for_status().json()
    assert card["ref_text"] == " ".join([STORY["ava-teacher"], STORY["adam-teacher"]])


def test_too_little_speech_is_refused(client: httpx.Client, recording: NDArray[np.float32]) -> None:
    start = round(0.5 * RATE)
    short = padded(recording[start : start + RATE // 2], 2.0)
    error = client.post(SPEECH, json=speech(ref_audio=data_url(short))).json()["error"]
    assert (error["param"], error["code"]) == ("ref_audio", "reference_too_short")
    assert "of speech" in error["message"]
