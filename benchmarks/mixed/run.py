"""Mixed load with cancels for some minutes, and whether every line was what it should have been.

    python -m benchmarks.mixed.run --config FILE [--model FOLDER] [--minutes 4] [--listeners 96] [--json FILE]

The engine of a configuration, in its own process, without HTTP. First each of ``--lines`` lines is heard alone: named
voices, x-vector and in-context clones, live text (what the checkpoint has of these; ``benchmarks.lib.fullsize --kind
both`` has all), in a language, with a seed and a forced length. Then ``--listeners`` ask for them at random, all the
time, and hear them to the end, hang up after some chunks or before the first, or take their time; some ask for batches.
Where the checkpoint clones, ``--encoders`` others keep asking for the voices of recordings that the engine has not
heard yet (``benchmarks.mixed.recordings``).

What is not wrong: a line's codes are those it had alone. On a GPU sums are made in another order in another batch, so
in bfloat16 a draw that is decided by less than the rounding may go the other way, and all that follows is another
utterance. So those that part are judged code by code, each after those really drawn before it
(``benchmarks.mixed.teacher``): a line is wrong if some frame of it has four codes or more whose number lies farther
outside their share than ``--tolerance``. That a wrong line would be found is shown on every line, judged as the next
one's answer. With ``--dtype float32`` and a small checkpoint nearly all lines are equal, and the tolerance is tiny;
with ``--reproducible`` all must be. As long as the codes are those of alone the samples must be, too, but for rounding.

A recording's voice is the one it has alone: an x-vector whose cosine with that is above 0.9999, and on a CPU the same
codes. On a GPU 99 % of the codes: near ties are decided by rounding.

Printed too: memory, files and threads of the engine's processes and the GPU's memory before the load, after its first
fifth and at its end; what is still in use afterwards; the longest wait for a first chunk and between two chunks; how
long recordings took. The bounds (``benchmarks.mixed.bounds``): from the first fifth to the end the engine's memory and
each GPU's grow by 5 % and 100 MiB at most, files and threads not at all; on a GPU nobody waits longer than 2 s for a
first chunk or between two. A bound that is not kept is printed.

Exits with 1 if a line was wrong, short or failed, if one that parted was not judged for lack of time (``--judging``:
three times the load's length, and 90 s at least), if a recording failed, became another voice or was not encoded, if
a bound was not kept, or if something is left in use.
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

from benchmarks.lib.gpu_watch import GpuWatch, watched
from benchmarks.lib.serving import ROOT
from benchmarks.mixed.bounds import broken
from benchmarks.mixed.clients import Crowd, Heard
from benchmarks.mixed.lines import lines_of, recorded_voices
from benchmarks.mixed.recordings import Recordings
from benchmarks.mixed.teacher import Teacher
from benchmarks.mixed.verdict import compare, judge
from engine.checkpoint.folder import open_checkpoint
from engine.client.client import EngineClient
from engine.config import EngineConfig
from server.settings import load_settings

_START_S = 600.0
_REST_S = 60.0
_TOLERANCE = {"float32": 0.002, "bfloat16": 0.05}
_DECIBELS = 25.0
"""By which samples of the same codes must agree: rounding lies 40 dB below a line, another line 0."""
_SHARE = {"cuda": 0.99, "cpu": 1.0}
"""Of a recording's codes that must be the same."""
_AT_REST = ("talker_slots", "talker_waiting", "code2wav_rows")


async def run(
    config: EngineConfig, given: argparse.Namespace, gpus: GpuWatch, share: float
) -> tuple[dict[str, Any], Any]:
    """All of the load; what was measured, and what was heard. share: of a recording's codes that must be the same."""
    engine = EngineClient(config)
    await engine.start()
    try:
        info = await engine.wait_ready(_START_S)
        crowd = Crowd(engine, lines_of(info, await recorded_voices(engine, info), given.lines, longest=given.longest))
        alone = await crowd.alone()
        again = await crowd.alone()
        same = sum(np.array_equal(one.codes, two.codes) for one, two in zip(alone, again, strict=True))
        print(f"{len(alone)} lines heard alone, {same} of them the same again", flush=True)
        recordings = Recordings(engine, info, given.recordings, share=share)
        await recordings.alone()
        process = engine._worker.process.pid
        held = [_held("before", process, gpus)]
        print(_told(held[0]), flush=True)
        seconds = 60 * given.minutes
        for name, part, seed in (("first fifth", 0.2, 1), ("end", 0.8, 2)):
            await asyncio.gather(
                crowd.together(given.listeners, part * seconds, seed),
                recordings.together(given.encoders, part * seconds, seed),
            )
            held.append(_held(name, process, gpus))
            print(f"{len(crowd.heard)} lines heard, {recordings.encoded} recordings; {_told(held[-1])}", flush=True)
        left = await _left(engine)
        at_hand = (await engine.stats(_REST_S))["reference_hits"]
    finally:
        await engine.close()
    found = {"held": held, "left": left, "same_again": same, "manners": dict(crowd.manners), **waits(crowd.heard)}
    found["kinds"] = dict(Counter(crowd.lines[each.line].kind for each in crowd.heard))
    found["recordings"] = recordings.found() | {"not_encoded": at_hand}
    found["failed"] = Counter(each.error for each in crowd.heard if each.error)
    return found, (crowd.lines, alone, crowd.heard)


def waits(heard: list[Heard]) -> dict[str, float]:
    """Milliseconds for first chunks and between chunks: what is usual, and the worst."""
    firsts = 1000 * np.array([each.first for each in heard])
    gaps = 1000 * np.array([each.gap for each in heard])
    found = {}
    for name, values in (("first", firsts[~np.isnan(firsts)]), ("gap", gaps[~np.isnan(gaps)])):
        if len(values):
            shares = {"p50": 50, "p99": 99, "worst": 100}
            found |= {
                f"{name}_{key}_ms": round(float(np.percentile(values, share)), 1) for key, share in shares.items()
            }
    return found


def _held(name: str, process: int, gpus: GpuWatch) -> dict[str, Any]:
    """What the engine holds now; the GPU's memory is that of the last few seconds, of all who use it."""
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


def _told(held: dict[str, Any]) -> str:
    return "{when}: {mib:,.0f} MiB, {files} files, {threads} threads, GPUs {gpu_mib}".format(**held)


async def _left(engine: EngineClient) -> dict[str, int]:
    """What is in use when nobody listens any more: nothing, or what is still there after a minute."""
    ends = time.monotonic() + _REST_S
    while True:
        stats = await engine.stats(_REST_S)
        left = {name: stats[name] for name in _AT_REST if stats.get(name)}
        if (not left and engine.open_streams == 0) or time.monotonic() > ends:
            return left | ({"streams": engine.open_streams} if engine.open_streams else {})
        await asyncio.sleep(0.2)


def main() -> None:
    """Load, listen, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "pocket.yaml")
    parser.add_argument("--model", help="a checkpoint folder, in the place of the configuration's")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--reproducible", action="store_true", help="talker.vllm.reproducible: none may part")
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--listeners", type=int, default=96)
    parser.add_argument("--lines", type=int, default=36)
    parser.add_argument("--longest", type=int, default=160, help="frames of a line")
    parser.add_argument("--tolerance", type=float, help="of a distribution; 0.05 in bfloat16, 0.002 in float32")
    parser.add_argument("--encoders", type=int, default=2, help="who ask for the voices of recordings all the time")
    parser.add_argument("--recordings", type=int, default=12, help="how many there are, of 2 to 12 s")
    parser.add_argument(
        "--judging", type=float, help="seconds for judging lines that parted; three times --minutes, 90 at least"
    )
    parser.add_argument("--json", type=Path, help="a file for every figure")
    given = parser.parse_args()
    flags: dict[str, Any] = {"engine": {"dtype": given.dtype} | ({"model": given.model} if given.model else {})}
    if given.reproducible:
        flags["engine"]["talker"] = {"vllm": {"reproducible": True}}
    config = load_settings(given.config, flags).engine_config
    device = torch.device("cuda" if torch.cuda.is_available() and config.device != "cpu" else "cpu")
    exact = given.dtype == "float32" or device.type == "cpu"
    with watched() as gpus:
        found, (lines, alone, heard) = asyncio.run(run(config, given, gpus, _SHARE[device.type]))
    print({name: value for name, value in found.items() if name != "held"}, flush=True)
    verdict, variants = compare(alone, heard, decibels=_DECIBELS)
    print(verdict.compared(), flush=True)
    torch.backends.cuda.matmul.allow_tf32 = not exact  # its rounding is an eighth of bfloat16's
    tolerance = given.tolerance or _TOLERANCE["float32" if exact else "bfloat16"]
    fp8 = config.talker.vllm.fp8_predictor
    teacher = Teacher(open_checkpoint(config.model), device, positions=config.talker.context, fp8=fp8)
    judging = max(90.0, 3 * 60 * given.minutes) if given.judging is None else given.judging
    judge(verdict, variants, lines, alone, teacher, tolerance=tolerance, seconds=judging)
    print(verdict.judgement())
    found["broken"] = broken(found["held"], found, bounded=device.type != "cpu")
    print("\n".join(f"BROKEN: {sentence}" for sentence in found["broken"]) or "all bounds kept")
    if given.json:
        about = {"minutes": given.minutes, "tolerance": tolerance, "reproducible": given.reproducible}
        report = found | about | {"verdict": verdict.fields()}
        given.json.write_text(json.dumps(report, indent=1) + "\n")
    parted = verdict.parted if given.reproducible else 0
    amiss = [parted, found["left"], found["failed"], found["broken"]]
    amiss += [found["recordings"][name] for name in ("unlike", "failed", "not_encoded")]
    raise SystemExit(0 if verdict.good and not any(amiss) else 1)


if __name__ == "__main__":
    main()
