"""The configuration page equals the settings."""

from __future__ import annotations

import pytest

from scripts.configuration_page import page
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "reference" / "configuration.md"


def test_the_configuration_page_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert PAGE.read_text() == page(), f"python -m scripts.configuration_page > {PAGE.relative_to(ROOT)}"


def test_a_setting_has_key_variable_type_bounds_default_and_description() -> None:
    row = (
        "| `slots`<br>`SONANT_ENGINE__TALKER__SLOTS` | integer, at least 1 | `8` "
        "| Maximum requests that decode together. More slots need more memory for the KV cache and make each step "
        "longer; too many cause underruns. |"
    )
    assert row in page()
