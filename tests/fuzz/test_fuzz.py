"""A short, seeded run of the fuzzer. A longer one: ``python -m tests.fuzz --minutes 10``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.campaign import ATTACKS, campaign
from tests.fuzz.target import start

SEED = 20


@pytest.mark.timeout(600)
def test_attacks_do_not_break_the_server(checkpoints, tmp_path: Path) -> None:
    target = start(tmp_path, checkpoints["pocket"])
    with target.serving:
        report = campaign(target, SEED, keep_going=lambda attacks: attacks < 400, log=print)
    assert set(report.attacks) == set(ATTACKS)
