"""Starts a server and fuzzes it: ``python -m tests.fuzz --minutes 10``."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.fuzz.campaign import campaign, run_attack
from tests.fuzz.target import start
from tests.support.random_checkpoint import write_checkpoint


def main() -> None:
    """Print the number of attacks by kind, or what failed and how to repeat it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same attacks")
    parser.add_argument("--only", type=int, help="run only this attack of the seed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder, "checkpoint")
        write_checkpoint(checkpoint, "pocket")
        server_folder = Path(folder, "server")
        server_folder.mkdir()
        target = start(server_folder, checkpoint)
        with target.serving:
            if args.only is not None:
                print(run_attack(target, args.seed, args.only), "passed")
                print("\n".join(target.serving.lines))
                return
            end = time.monotonic() + 60 * args.minutes
            report = campaign(target, args.seed, lambda _: time.monotonic() < end, lambda line: print(line, flush=True))
    for kind, count in sorted(report.attacks.items()):
        print(f"{count:8} {kind}")


if __name__ == "__main__":
    main()
