"""Runs a mixed load with cancellations for some minutes, and checks that every response is correct.

    python -m benchmarks.mixed.run --config FILE [--model FOLDER] [--minutes 4] [--listeners 96] [--json FILE]

Runs the engine of a configuration in its own process, without HTTP. First it requests each of ``--lines`` lines alone:
named voices, x-vector and in-context clones, live text (as far as the checkpoint supports them;
``benchmarks.lib.fullsize --kind both`` supports all), each with a language, a seed and a fixed length. Then
``--listeners`` clients request random lines all the time. They read to the end, cancel after some chunks or before the
first one, or read slowly; some request batches. If the checkpoint can clone, ``--encoders`` other clients keep encoding
recordings that are not in the engine's cache (``benchmarks.mixed.recordings``).

A response is correct if its codes are the same as alone. On a GPU the order of summation depends on the batch. In
bfloat16, rounding may then change a sampled code, after which the rest of the utterance differs: the response diverges.
Such responses are checked code by code with teacher forcing (``benchmarks.mixed.teacher``): a response is wrong if a
frame has four or more codes whose slip is above ``--tolerance``. To test the check itself, every line is also checked
as the response to another line, and must be found wrong. With ``--dtype float32`` and a small checkpoint nearly all
responses are equal, and the tolerance is tiny. With ``--reproducible`` all must be equal. As long as the codes are
equal, the samples must be equal except for rounding.

The voice of a recording must be the one it has alone: x-vectors with a cosine above 0.9999, and the same codes on a
CPU. On a GPU 99 % of the codes must be the same, because rounding decides near ties.

Also prints memory, files and threads of the engine's processes and the GPU memory before the load, after its first
fifth and at its end; resources still in use afterwards; the longest wait for a first chunk and between two chunks; and
encoding times of recordings. Prints each limit (``benchmarks.mixed.limits``) that is exceeded: from the first fifth to
the end, the memory of the engine and of each GPU may grow by 5 % plus 100 MiB, files and threads not at all; on a GPU
no wait for a first chunk or between two chunks may exceed 2 s.

Exits with 1 if a response was wrong, had a wrong length or failed, if a diverged one was not checked for lack of time
(``--judging``: three times the length of the load, at least 90 s), if a recording failed, had a different voice or was
not encoded, if a limit was exceeded, or if resources are still in use at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from benchmarks.lib.gpu_watch import GpuWatch, watch_gpus
from benchmarks.lib.serving import ROOT
from benchmarks.mixed.clients import Clients, Response
from benchmarks.mixed.limits import exceeded_limits
from benchmarks.mixed.lines import lines_of, synthetic_voices
from benchmarks.mixed.recordings import Recordings
from benchmarks.mixed.teacher import Teacher
from benchmarks.mixed.verdict import check_diverged, compare
from engine.checkpoint.folder import open_checkpoint
from engine.client.client import EngineClient
from engine.config import EngineConfig
from server.settings import load_settings

_START_TIMEOUT_S = 600.0
_IDLE_TIMEOUT_S = 60.0
_TOLERANCE = {"float32": 0.002, "bfloat16": 0.05}
_MIN_SNR_DB = 36.0
"""Minimum level of the difference of samples decoded from the same codes, in dB below the line. On a GPU the
difference by rounding is at least 42 dB below the line, that of another line 0 dB."""
_SHARE = {"cuda": 0.99, "cpu": 1.0}
"""Minimum fraction of a recording's codes that must be the same, by device type."""
_IDLE_STATS = ("talker_slots", "talker_waiting", "code2wav_rows")


async def run(
    config: EngineConfig, args: argparse.Namespace, gpus: GpuWatch, share: float
) -> tuple[dict[str, Any], Any]:
    """Run the whole load. Return the measurements, and the lines with their responses alone and under load.

    share: minimum fraction of a recording's codes that must be the same.
    """
    engine = EngineClient(config)
    await engine.start()
    try:
        info = await engine.wait_ready(_START_TIMEOUT_S)
        clients = Clients(
            engine, lines_of(info, await synthetic_voices(engine, info), args.lines, max_frames=args.longest)
        )
        alone = await clients.alone()
        again = await clients.alone()
        same = sum(np.array_equal(one.codes, two.codes) for one, two in zip(alone, again, strict=True))
        print(f"{len(alone)} lines without load, {same} of them equal in a second run", flush=True)
        recordings = Recordings(engine, info, args.recordings, share=share)
        await recordings.alone()
        assert engine._worker is not None
        process = engine._worker.process.pid
        usage = [_usage("before", process, gpus)]
        print(_usage_line(usage[0]), flush=True)
        seconds = 60 * args.minutes
        for name, part, seed in (("first fifth", 0.2, 1), ("end", 0.8, 2)):
            await asyncio.gather(
                clients.concurrently(args.listeners, part * seconds, seed),
                recordings.concurrently(args.encoders, part * seconds, seed),
            )
            usage.append(_usage(name, process, gpus))
            print(
                f"{len(clients.responses)} responses, {recordings.encoded} recordings; {_usage_line(usage[-1])}",
                flush=True,
            )
        still_in_use = await _still_in_use(engine)
        cache_hits = (await engine.stats(_IDLE_TIMEOUT_S))["reference_hits"]
    finally:
        await engine.close()
    results: dict[str, Any] = {
        "usage": usage,
        "still_in_use": still_in_use,
        "equal_again": same,
        "behaviors": dict(clients.behaviors),
    }
    results |= waits(clients.responses)
    results["kinds"] = dict(Counter(clients.lines[each.line].kind for each in clients.responses))
    results["recordings"] = recordings.results() | {"not_encoded": cache_hits}
    results["failed"] = Counter(each.error for each in clients.responses if each.error)
    return results, (clients.lines, alone, clients.responses)


def waits(responses: list[Response]) -> dict[str, float]:
    """Return percentiles of the waits for first chunks and between chunks, in milliseconds."""
    firsts = 1000 * np.array([each.first for each in responses])
    gaps = 1000 * np.array([each.gap for each in responses])
    percentiles: dict[str, float] = {}
    for name, values in (("first", firsts[~np.isnan(firsts)]), ("gap", gaps[~np.isnan(gaps)])):
        if len(values):
            shares = {"p50": 50, "p99": 99, "worst": 100}
            percentiles |= {
                f"{name}_{key}_ms": round(float(np.percentile(values, share)), 1) for key, share in shares.items()
            }
    return percentiles


def _usage(name: str, process: int, gpus: GpuWatch) -> dict[str, Any]:
    """Return the engine's resources now. GPU memory is the maximum of the last 5 s, over all processes on the GPU."""
    now = time.time()
    memory = {gpu: figures["memory_mib"] for gpu, figures in gpus.between(now - 5, now).items()}
    engine = psutil.Process(process)
    family = [engine, *engine.children(recursive=True)]
    return {
        "when": name,
        "mib": sum(each.memory_info().rss for each in family) / 2**20,
        "files": sum(each.num_fds() for each in family),
        "threads": sum(each.num_threads() for each in family),
        "gpu_mib": memory,
    }


def _usage_line(usage: dict[str, Any]) -> str:
    return "{when}: {mib:,.0f} MiB, {files} files, {threads} threads, GPUs {gpu_mib}".format(**usage)


async def _still_in_use(engine: EngineClient) -> dict[str, int]:
    """Wait until the engine is idle. Return the resources that are still in use after ``_IDLE_TIMEOUT_S`` seconds."""
    deadline = time.monotonic() + _IDLE_TIMEOUT_S
    while True:
        stats = await engine.stats(_IDLE_TIMEOUT_S)
        still_in_use = {name: stats[name] for name in _IDLE_STATS if stats.get(name)}
        if (not still_in_use and engine.open_streams == 0) or time.monotonic() > deadline:
            return still_in_use | ({"streams": engine.open_streams} if engine.open_streams else {})
        await asyncio.sleep(0.2)


def main() -> None:
    """Run the load, check the responses and report the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "pocket.yaml")
    parser.add_argument("--model", help="a checkpoint folder that replaces the model of the configuration")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--reproducible", action="store_true", help="talker.vllm.reproducible: no response may diverge")
    parser.add_argument("--minutes", type=float, default=4, help="length of the load")
    parser.add_argument("--listeners", type=int, default=96, help="number of concurrent clients")
    parser.add_argument("--lines", type=int, default=36, help="number of different requests")
    parser.add_argument("--longest", type=int, default=160, help="maximum frames of a line")
    parser.add_argument(
        "--tolerance", type=float, help="maximum slip that is not an error; default 0.05 in bfloat16, 0.002 in float32"
    )
    parser.add_argument("--encoders", type=int, default=2, help="number of clients that encode recordings")
    parser.add_argument("--recordings", type=int, default=12, help="number of recordings, of 2 to 12 s")
    parser.add_argument(
        "--judging",
        type=float,
        help="seconds for checking diverged responses; default three times --minutes, at least 90",
    )
    parser.add_argument("--json", type=Path, help="write all results to this file")
    args = parser.parse_args()
    flags: dict[str, Any] = {"engine": {"dtype": args.dtype} | ({"model": args.model} if args.model else {})}
    if args.reproducible:
        flags["engine"]["talker"] = {"vllm": {"reproducible": True}}
    config = load_settings(args.config, flags).all_models[0].engine
    device = torch.device("cuda" if torch.cuda.is_available() and config.device != "cpu" else "cpu")
    exact = args.dtype == "float32" or device.type == "cpu"
    with watch_gpus() as gpus:
        results, (lines, alone, responses) = asyncio.run(run(config, args, gpus, _SHARE[device.type]))
    print({name: value for name, value in results.items() if name != "usage"}, flush=True)
    verdict, variants = compare(alone, responses, min_snr_db=_MIN_SNR_DB)
    print(verdict.comparison_summary(), flush=True)
    torch.backends.cuda.matmul.allow_tf32 = not exact  # TF32 rounding errors are an eighth of those of bfloat16
    tolerance = args.tolerance or _TOLERANCE["float32" if exact else "bfloat16"]
    fp8 = config.talker.vllm.fp8_predictor
    teacher = Teacher(open_checkpoint(config.model), device, positions=config.talker.context, fp8=fp8)
    judging = max(90.0, 3 * 60 * args.minutes) if args.judging is None else args.judging
    check_diverged(verdict, variants, lines, alone, teacher, tolerance=tolerance, seconds=judging)
    print(verdict.check_summary())
    results["exceeded_limits"] = exceeded_limits(results["usage"], results, limit_waits=device.type != "cpu")
    print("\n".join(f"LIMIT EXCEEDED: {each}" for each in results["exceeded_limits"]) or "no limit exceeded")
    if args.json:
        about = {"minutes": args.minutes, "tolerance": tolerance, "reproducible": args.reproducible}
        report = results | about | {"verdict": verdict.fields()}
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    diverged = verdict.diverged if args.reproducible else 0
    failures = [diverged, results["still_in_use"], results["failed"], results["exceeded_limits"]]
    failures += [results["recordings"][name] for name in ("different", "failed", "not_encoded")]
    raise SystemExit(0 if verdict.good and not any(failures) else 1)


if __name__ == "__main__":
    main()
