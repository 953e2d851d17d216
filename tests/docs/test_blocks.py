"""Every code block of the documentation works when pasted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from server.settings import load_settings
from tests.docs.blocks import BLOCKS, KNOWN, PAGES, ROOT, RUN, Block
from tests.docs.conftest import PageRunner
from tests.docs.page_runner import TIMEOUT
from tests.server.audio_decoding import CONTENT_TYPES, decode_audio

pytestmark = pytest.mark.timeout(TIMEOUT + 20)


def block_name(block: Block) -> str:
    return block.name


@pytest.mark.parametrize("block", BLOCKS, ids=block_name)
def test_a_block_has_a_known_language(block: Block) -> None:
    assert block.language in KNOWN or block.reason, f"{block.name}: unknown language: {block.language!r}"


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language in RUN or block.reason], ids=block_name)
def test_a_block_runs(block: Block, page_runner: PageRunner) -> None:
    if block.reason:
        pytest.skip(f"{block.name} {block.reason}")
    run = page_runner(block.page)
    assert block.line in run.done, f"this block or an earlier one failed:\n{run.output[-4000:]}"


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "yaml" and not block.reason], ids=block_name
)
def test_settings_blocks_are_valid(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "sonant.yaml"
    file.write_text(block.code)
    flags = {} if "engine" in yaml.safe_load(block.code) else {"engine": {"model": "any"}}
    load_settings(file, flags)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_saved_and_played_audio_is_valid(page: Path, page_runner: PageRunner) -> None:
    if not any(block.page == page and block.language in RUN and not block.reason for block in BLOCKS):
        return
    for file in page_runner(page).folder.iterdir():
        kind = file.suffix.removeprefix(".")
        if kind in CONTENT_TYPES:
            samples, rate = decode_audio(file.read_bytes(), kind)
            assert len(samples) > rate / 4, file.name
            assert np.abs(samples).max() > 0.01, file.name
