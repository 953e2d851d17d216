"""The page at ``/`` as it is sent: whole, its own, and to nobody's harm."""

from __future__ import annotations

import re

import httpx
import pytest

from server.api.playground import FOLDER
from tests.server.serving import Serving
from tests.server.test_bad_input import check

PARTS = sorted(path.name for path in FOLDER.iterdir() if path.name != "index.html")
TYPES = {"js": {"text/javascript", "application/javascript"}, "css": {"text/css"}, "svg": {"image/svg+xml"}}


def test_the_bare_address_is_the_page(client: httpx.Client) -> None:
    page, head = client.get("/"), client.head("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<title>Sonant playground</title>" in page.text
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", page.headers["etag"])


@pytest.mark.parametrize("name", PARTS)
def test_each_of_its_parts_is_served_and_asks_for_no_others(client: httpx.Client, name: str) -> None:
    part = client.get(f"/playground/{name}")
    assert part.headers["content-type"].partition(";")[0] in TYPES[name.rpartition(".")[2]]
    wanted = set(re.findall(r"""from "\./([^"]+)""", part.text)) | set(re.findall(r"""\burl\("([^"]+)""", part.text))
    assert wanted <= set(PARTS)


def test_the_page_and_its_parts_load_nothing_from_elsewhere(client: httpx.Client) -> None:
    page = client.get("/")
    wanted = re.findall(r"""(?:src|href)="([^"#]+)""", page.text)
    assert set(wanted) == {"docs", "playground/icon.svg", "playground/main.js", "playground/style.css"}
    for path in ("/", *(f"/playground/{name}" for name in PARTS)):
        addresses = set(re.findall(r"https?://[\w.]+", client.get(path).text))
        assert addresses <= {"http://www.w3.org"}


@pytest.mark.parametrize("path", ["/", "/playground/main.js", "/playground/style.css"])
def test_a_browser_lets_it_do_nothing_else(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert {policy[kind] for kind in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert headers["x-content-type-options"] == "nosniff"


def test_what_a_browser_has_is_not_sent_again(client: httpx.Client) -> None:
    tag = client.get("/playground/main.js").headers["etag"]
    again = client.get("/playground/main.js", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("part", ["bytes=0-9", "bytes=9999999-", "lines=1"])
def test_it_is_sent_whole_whatever_part_is_asked_for(client: httpx.Client, part: str) -> None:
    asked = client.get("/", headers={"Range": part})
    assert (asked.status_code, asked.content) == (200, client.get("/").content)


@pytest.mark.parametrize(
    "name", ["nothing.js", "%2e%2e%2fapp.py", "..%2f..%2fpyproject.toml", "%2fetc%2fpasswd", "", "a%00b", "x" * 300]
)
def test_nothing_but_its_parts_is_there(client: httpx.Client, name: str) -> None:
    check(client.get(f"/playground/{name}"), 404, None, "not_found")


def test_nothing_can_be_sent_to_it(client: httpx.Client) -> None:
    check(client.post("/"), 405, None, "method_not_allowed")


def test_loading_it_leaves_the_log_to_the_requests(serving: Serving, client: httpx.Client) -> None:
    client.get("/playground/main.js", headers={"X-Request-Id": "a-part"})
    client.get("/v1/models", headers={"X-Request-Id": "after-the-part"})
    serving.wait_for("id=after-the-part")
    assert not [line for line in serving.lines if "id=a-part" in line]
