"""Whatever a page shows to paste works when it is pasted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from server.settings import load_settings
from tests.docs.blocks import BLOCKS, KNOWN, PAGES, ROOT, RUN, Block
from tests.docs.conftest import Reader
from tests.docs.reading import PATIENCE
from tests.server.hearing import CONTENT_TYPES, decode_audio

pytestmark = pytest.mark.timeout(PATIENCE + 20)


def named(block: Block) -> str:
    return block.name


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_block_says_its_language(block: Block) -> None:
    assert block.language in KNOWN or block.reason, f"{block.name}: no test can tell what this is: {block.language!r}"


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language in RUN or block.reason], ids=named)
def test_a_block_runs(block: Block, reader: Reader) -> None:
    if block.reason:
        pytest.skip(f"{block.name} {block.reason}")
    reading = reader(block.page)
    assert block.line in reading.done, f"it failed, or one before it:\n{reading.told[-4000:]}"


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "yaml" and not block.reason], ids=named
)
def test_settings_are_settings(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "sonant.yaml"
    file.write_text(block.code)
    flags = {} if "engine" in yaml.safe_load(block.code) else {"engine": {"model": "any"}}
    load_settings(file, flags)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_whatever_a_page_saves_or_plays_can_be_heard(page: Path, reader: Reader) -> None:
    if not any(block.page == page and block.language in RUN and not block.reason for block in BLOCKS):
        return
    for file in reader(page).folder.iterdir():
        kind = file.suffix.removeprefix(".")
        if kind in CONTENT_TYPES:
            samples, rate = decode_audio(file.read_bytes(), kind)
            assert len(samples) > rate / 4, file.name
            assert np.abs(samples).max() > 0.01, file.name
