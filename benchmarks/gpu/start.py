"""Times the start of an engine: where nothing was ever compiled, and again with the compiled kernels.

    python -m benchmarks.gpu.start FOLDER [--config FILE] [--starts 3] [--bytecode new|installed|none] [--json FILE]

The first start has empty caches of compiled kernels, in a folder that is deleted at the end. The others use what it
compiled. The engine's log, on standard error, says what took how long. Python's own bytecode is kept in the same folder
(PYTHONPYCACHEPREFIX), so the first start also compiles all Python modules. With ``installed`` they are compiled before
the first start, as pip compiles them when it installs a package. With ``none`` every start compiles them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.lib.report import machine
from benchmarks.lib.serving import ROOT
from engine.client.client import EngineClient
from server.settings import load_settings

_LOAD_SECONDS = 600.0
_CACHES = {
    "XDG_CACHE_HOME": "user",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "VLLM_CACHE_ROOT": "vllm",
    "CUDA_CACHE_PATH": "cuda",
    "PYTHONPYCACHEPREFIX": "bytecode",
}
"""Environment variable -> subfolder of the temporary folder."""
_IMPORTS = "import engine.worker, engine.precompile, engine.talker.vllm.core"


async def start(folder: Path, config: Path) -> float:
    """Start an engine, stop it, and return the seconds until it was ready."""
    settings = load_settings(config, {"engine": {"model": str(folder)}})
    assert settings.engine is not None
    began = time.perf_counter()
    engine = EngineClient(settings.engine)
    await engine.start()
    try:
        await engine.wait_ready(_LOAD_SECONDS)
        return time.perf_counter() - began
    finally:
        await engine.close()


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a checkpoint")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "h200-1.7b.yaml")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--bytecode", choices=("new", "installed", "none"), default="new", help="default new")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    args = parser.parse_args()
    print("{cpu}, {cores} cores; Python {python}, torch {torch}".format(**machine()), flush=True)
    seconds = []
    with tempfile.TemporaryDirectory() as caches:
        os.environ |= {name: str(Path(caches) / subfolder) for name, subfolder in _CACHES.items()}
        os.environ |= {"PYTHONDONTWRITEBYTECODE": "1" if args.bytecode == "none" else ""}
        if args.bytecode == "installed":
            subprocess.run([sys.executable, "-c", _IMPORTS], check=True)
        for number in range(args.starts):
            seconds.append(asyncio.run(start(args.folder, args.config)))
            print(f"start {number + 1}: ready after {seconds[-1]:.1f} s", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "seconds": seconds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
