"""Attack a server of one's own, for as long as one likes: ``python -m tests.fuzz --minutes 10``."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.fuzz.campaign import attack, campaign
from tests.fuzz.target import start
from tests.support.random_checkpoint import write_checkpoint


def main() -> None:
    """Ends with a table, or with what was found and how to repeat it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1, help="the same seed is the same attacks")
    parser.add_argument("--only", type=int, help="repeat this attack of the seed alone")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder, "checkpoint")
        write_checkpoint(checkpoint, "pocket")
        place = Path(folder, "server")
        place.mkdir()
        target = start(place, checkpoint)
        with target.serving:
            if given.only is not None:
                print(attack(target, given.seed, given.only), "found nothing")
                print("\n".join(target.serving.lines))
                return
            end = time.monotonic() + 60 * given.minutes
            report = campaign(
                target, given.seed, lambda _: time.monotonic() < end, lambda line: print(line, flush=True)
            )
    for kind, count in sorted(report.attacks.items()):
        print(f"{count:8} {kind}")


if __name__ == "__main__":
    main()
