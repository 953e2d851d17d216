"""The documentation site that is built from the pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.blocks import PAGES, ROOT

FETCHED = {"script": "src", "link": "href", "img": "src", "audio": "src", "source": "src", "iframe": "src"}
"""Elements for which browsers fetch a URL, and the attribute with the URL."""


class FetchedUrls(HTMLParser):
    """The URLs that a browser fetches for a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(FETCHED.get(tag, ""))
        if address:
            self.found.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def fetched_urls(site: Path) -> Iterator[tuple[Path, str]]:
    for page in site.rglob("*.html"):
        for address in FetchedUrls(page).found:
            yield page, address


def test_every_page_is_on_the_site_and_in_its_navigation(site: Path) -> None:
    front = (site / "index.html").read_text()
    for page in PAGES:
        if page.is_relative_to(ROOT / "docs"):
            address = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
            assert (site / address).is_file()
            assert f'href="{address}"' in front or page.stem == "index"


def test_nothing_is_fetched_from_other_hosts(site: Path) -> None:
    for page, address in fetched_urls(site):
        split = urlsplit(address)
        assert not split.netloc and split.scheme in ("", "data"), f"{page.name}: {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style.name


def test_every_fetched_file_exists(site: Path) -> None:
    for page, address in fetched_urls(site):
        split = urlsplit(address)
        start = site if split.path.startswith("/") else page.parent
        assert split.scheme == "data" or (start / unquote(split.path).lstrip("/")).exists(), f"{page.name}: {address}"


def test_the_front_page_contains_the_quick_start_of_the_readme(site: Path) -> None:
    assert "scripts/tts-stream" in (site / "index.html").read_text()


@pytest.mark.parametrize("file", [*PAGES, ROOT / "docs" / "images" / "architecture.svg"], ids=lambda file: file.name)
def test_files_named_on_a_page_exist(file: Path) -> None:
    folders = "server|engine|scripts|tests|configs|docs|benchmarks|models"
    for name in re.findall(rf"(?<![\w/.~-])(?:{folders})/[\w./-]*", file.read_text(encoding="utf-8")):
        assert (ROOT / name.rstrip(".")).exists(), name


def test_every_image_is_used(site: Path) -> None:
    shown = {Path(address).name for _, address in fetched_urls(site)}
    assert {file.name for file in (ROOT / "docs" / "images").iterdir()} <= shown
