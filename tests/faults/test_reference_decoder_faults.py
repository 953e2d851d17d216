"""Decoder workers that are killed, stopped or slow, and cancelled calls."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator

import numpy as np
import psutil
import pytest

from server.api_error import ApiError
from server.limits import Limits
from server.references import decode
from server.references.decode import Decoder
from server.references.decoders import decode_samples
from tests.server.malicious_recordings import vorbis
from tests.server.recordings import tone, wav

LIMITS = Limits()
TIMEOUT = 60.0
FIRST, SECOND = wav(tone(1.5)), wav(tone(2.0))


@pytest.fixture
async def decoder() -> AsyncIterator[Decoder]:
    """A decoder with one worker that has decoded a recording."""
    decoder = Decoder(LIMITS, workers=1)
    await decoder.decode(FIRST)
    yield decoder
    await decoder.close()


def slow_recording() -> bytes:
    """A recording that takes about a second to refuse."""
    return vorbis(256, 1, 2**16, values=False)


async def child_of(pid: int) -> psutil.Process:
    """The child process that decodes for a worker; waits until it exists."""
    async with asyncio.timeout(TIMEOUT):
        while not (children := psutil.Process(pid).children()):
            await asyncio.sleep(0.001)
    return children[0]


async def error_of(task: asyncio.Task[np.ndarray]) -> ApiError:
    with pytest.raises(ApiError) as refusal:
        await asyncio.wait_for(task, TIMEOUT)
    return refusal.value


async def test_a_worker_killed_while_idle_is_replaced(decoder: Decoder, caplog: pytest.LogCaptureFixture) -> None:
    (pid,) = decoder.pids
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(TIMEOUT):
        while decoder.pids:
            await asyncio.sleep(0.001)
    np.testing.assert_array_equal(await decoder.decode(SECOND), decode_samples(SECOND, LIMITS))
    assert decoder.pids != (pid,)
    assert f"worker (pid {pid})" in caplog.text


async def test_a_worker_killed_while_decoding_is_replaced(decoder: Decoder, caplog: pytest.LogCaptureFixture) -> None:
    (pid,) = decoder.pids
    task = asyncio.create_task(decoder.decode(slow_recording()))
    child = await child_of(pid)
    os.kill(pid, signal.SIGKILL)
    error = await error_of(task)
    assert (error.status, error.param, error.code) == (400, "ref_audio", "reference_undecodable")
    assert "lost a worker" in caplog.text
    assert len(await decoder.decode(SECOND)) == 48_000
    assert child.pid not in [each.pid for each in psutil.Process().children(recursive=True)]
    if sys.platform == "linux":
        psutil.wait_procs([child], TIMEOUT)
        assert not child.is_running()


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGXCPU, "reference_too_complex"),
        (signal.SIGALRM, "reference_too_complex"),
        (signal.SIGSEGV, "reference_undecodable"),
        (signal.SIGKILL, "reference_undecodable"),
    ],
)
async def test_a_child_killed_by_a_signal_leaves_the_worker_running(
    decoder: Decoder, caplog: pytest.LogCaptureFixture, number: signal.Signals, code: str
) -> None:
    pids = decoder.pids
    caplog.set_level(logging.WARNING)
    task = asyncio.create_task(decoder.decode(slow_recording()))
    (await child_of(pids[0])).send_signal(number)
    error = await error_of(task)
    assert (error.status, error.param, error.code) == (400, "ref_audio", code)
    assert len(await decoder.decode(SECOND)) == 48_000
    assert decoder.pids == pids
    assert len([record for record in caplog.records if "could not decode" in record.message]) == 1


async def test_a_worker_that_does_not_answer_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_REPLY_GRACE_SECONDS", -29.0)
    decoder = Decoder(LIMITS, workers=1)
    await decoder.decode(FIRST)
    (pid,) = decoder.pids
    os.kill(pid, signal.SIGSTOP)
    error = await error_of(asyncio.create_task(decoder.decode(FIRST)))
    assert (error.status, error.code) == (400, "reference_too_complex")
    assert len(await decoder.decode(SECOND)) == 48_000
    assert not psutil.pid_exists(pid)
    await decoder.close()


async def test_a_cancelled_call_does_not_mix_up_the_answers(decoder: Decoder) -> None:
    pids = decoder.pids
    os.kill(pids[0], signal.SIGSTOP)
    tasks = [asyncio.create_task(decoder.decode(data)) for data in (FIRST, FIRST, SECOND)]
    await asyncio.sleep(0)
    for task in tasks[:2]:
        task.cancel()
    await asyncio.wait(tasks[:2])
    os.kill(pids[0], signal.SIGCONT)
    np.testing.assert_array_equal(await asyncio.wait_for(tasks[2], TIMEOUT), decode_samples(SECOND, LIMITS))
    assert decoder.pids == pids
    assert decoder.outcomes["DECODED"] == 3  # the second call was cancelled before its turn


async def test_closing_ends_running_and_queued_calls(decoder: Decoder) -> None:
    (pid,) = decoder.pids
    tasks = [asyncio.create_task(decoder.decode(data)) for data in (slow_recording(), FIRST)]
    await child_of(pid)
    await decoder.close()
    assert [(await error_of(task)).status for task in tasks] == [503, 503]
    assert not psutil.pid_exists(pid)
