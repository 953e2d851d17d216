"""A short, seeded run of the fuzzer. A longer one: ``python -m tests.fuzz --minutes 10``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.campaign import ATTACKS, campaign
from tests.fuzz.target import start

SEED = 20


@pytest.mark.timeout(600)
def test_nothing_that_a_client_sends_breaks_the_server(checkpoints, tmp_path: Path) -> None:
    target = start(tmp_path, checkpoints["pocket"])
    with target.serving:
        report = campaign(target, SEED, go_on=lambda attacks: attacks < 400, tell=print)
    assert set(report.attacks) == set(ATTACKS)
