"""The pool of decoder workers: decoded samples, refusals, and isolation of a worker."""

from __future__ import annotations

import asyncio
import io
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import numpy as np
import psutil
import pytest
import soundfile as sf

from server.api_error import ApiError
from server.limits import Limits
from server.references import worker_process
from server.references.decode import Decoder
from server.references.decoders import decode_samples
from tests.fuzz.recordings import recordings
from tests.server.recordings import tone, wav

LIMITS = Limits()
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="/proc and memory limits need Linux")


@pytest.fixture
async def decoder() -> AsyncIterator[Decoder]:
    decoder = Decoder(LIMITS)
    yield decoder
    await decoder.close()


async def decode_error(decoder: Decoder, data: bytes) -> ApiError:
    with pytest.raises(ApiError) as refusal:
        await decoder.decode(data)
    return refusal.value


async def test_workers_decode_the_same_samples_as_this_process(decoder: Decoder) -> None:
    files = recordings()
    decoded = await asyncio.gather(*map(decoder.decode, files.values()))
    for name, samples in zip(files, decoded, strict=True):
        np.testing.assert_array_equal(samples, decode_samples(files[name], LIMITS), err_msg=name)
    assert 1 <= len(decoder.pids) <= 2


async def test_the_first_recording_starts_a_worker(decoder: Decoder) -> None:
    assert decoder.pids == ()
    await decoder.decode(wav(tone(1.5)))
    assert len(decoder.pids) == 1


async def test_workers_refuse_with_the_same_error_as_this_process(decoder: Decoder) -> None:
    for data in (b"", b"not audio", wav(tone(0.5)), wav(tone(31)), wav(np.zeros(32_000, np.float32))):
        with pytest.raises(ApiError) as expected:
            decode_samples(data, LIMITS)
        error = await decode_error(decoder, data)
        fields = [(each.message, each.status, each.param, each.code) for each in (error, expected.value)]
        assert fields[0] == fields[1]


async def test_a_file_that_is_too_large_never_reaches_a_worker(decoder: Decoder) -> None:
    assert "bytes" in (await decode_error(decoder, bytes(LIMITS.reference_max_bytes + 1))).message
    assert decoder.pids == ()


async def test_the_longest_recording_at_the_highest_rate_fits_the_memory_limit(decoder: Decoder) -> None:
    file = io.BytesIO()
    sf.write(file, np.tile(tone(1.0), 30 * 12), 192_000, format="WAV", subtype="ULAW")
    assert len(await decoder.decode(file.getvalue())) == 30 * 24_000


@needs_proc
async def test_a_worker_has_no_secrets_and_a_lower_priority(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SONANT_API_KEY", "secret")
    monkeypatch.setenv("HF_TOKEN", "secret")
    await decoder.decode(wav(tone(1.5)))
    worker = psutil.Process(decoder.pids[0])
    assert "secret" not in worker.environ().values()
    assert worker.nice() > psutil.Process().nice()
    assert worker.num_threads() == 1


async def test_a_failure_to_start_a_worker_is_a_503(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(worker_process.sys, "executable", "/nonexistent/python")
        error = await decode_error(decoder, wav(tone(1.5)))
    assert (error.status, error.code) == (503, "decoder_unavailable")
    assert len(await decoder.decode(wav(tone(1.5))))


LIMITED_SCRIPT = """
import time
from server.references.process_limits import Budget, address_space_bytes, restrict
restrict(Budget(memory_bytes=2**26, cpu_seconds=1, wall_seconds={wall}), address_space_bytes())
{body}
"""


@pytest.mark.parametrize(
    ("wall", "body", "exit_code"),
    [
        (30, "while True: pass", -signal.SIGXCPU),
        (1, "time.sleep(60)", -signal.SIGALRM),
        (30, "try: open('/dev/null')\nexcept OSError: raise SystemExit(7)", 7),
        pytest.param(30, "try: bytes(2**27)\nexcept MemoryError: raise SystemExit(8)", 8, marks=needs_proc),
    ],
    ids=["CPU time", "time", "files", "memory"],
)
def test_a_process_that_exceeds_a_limit_is_stopped(wall: int, body: str, exit_code: int) -> None:
    script = LIMITED_SCRIPT.format(wall=wall, body=body)
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == exit_code
