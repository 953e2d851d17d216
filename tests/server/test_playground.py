"""The playground page at ``/``: complete, self-contained and restricted by a content security policy."""

from __future__ import annotations

import re

import httpx
import pytest

from server.api.static_pages import PLAYGROUND_FOLDER
from tests.server.serving import Serving
from tests.server.test_bad_input import check

PARTS = sorted(path.name for path in PLAYGROUND_FOLDER.iterdir() if path.name != "index.html")
TYPES = {"js": {"text/javascript", "application/javascript"}, "css": {"text/css"}, "svg": {"image/svg+xml"}}


def test_the_root_path_serves_the_page(client: httpx.Client) -> None:
    page, head = client.get("/"), client.head("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<title>Sonant playground</title>" in page.text
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", page.headers["etag"])


@pytest.mark.parametrize("name", PARTS)
def test_each_asset_is_served_and_refers_only_to_other_assets(client: httpx.Client, name: str) -> None:
    asset = client.get(f"/playground/{name}")
    assert asset.headers["content-type"].partition(";")[0] in TYPES[name.rpartition(".")[2]]
    referenced = set(re.findall(r"""from "\./([^"]+)""", asset.text)) | set(
        re.findall(r"""\burl\("([^"]+)""", asset.text)
    )
    assert referenced <= set(PARTS)


def test_the_page_loads_nothing_from_other_hosts(client: httpx.Client) -> None:
    page = client.get("/")
    referenced = re.findall(r"""(?:src|href)="([^"#]+)""", page.text)
    assert set(referenced) == {"docs", "playground/icon.svg", "playground/main.js", "playground/style.css"}
    for path in ("/", *(f"/playground/{name}" for name in PARTS)):
        urls = set(re.findall(r"https?://[\w.]+", client.get(path).text))
        assert urls <= {"http://www.w3.org"}


@pytest.mark.parametrize("path", ["/", "/playground/main.js", "/playground/style.css"])
def test_the_content_security_policy_forbids_everything_else(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert {policy[kind] for kind in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert headers["x-content-type-options"] == "nosniff"


def test_assets_are_cached_by_etag(client: httpx.Client) -> None:
    tag = client.get("/playground/main.js").headers["etag"]
    again = client.get("/playground/main.js", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("part", ["bytes=0-9", "bytes=9999999-", "lines=1"])
def test_range_requests_get_the_complete_page(client: httpx.Client, part: str) -> None:
    response = client.get("/", headers={"Range": part})
    assert (response.status_code, response.content) == (200, client.get("/").content)


@pytest.mark.parametrize(
    "name", ["nothing.js", "%2e%2e%2fapp.py", "..%2f..%2fpyproject.toml", "%2fetc%2fpasswd", "", "a%00b", "x" * 300]
)
def test_other_paths_are_not_found(client: httpx.Client, name: str) -> None:
    check(client.get(f"/playground/{name}"), 404, None, "not_found")


def test_refuses_other_methods(client: httpx.Client) -> None:
    check(client.post("/"), 405, None, "method_not_allowed")


def test_asset_requests_are_not_logged(serving: Serving, client: httpx.Client) -> None:
    client.get("/playground/main.js", headers={"X-Request-Id": "an-asset"})
    client.get("/v1/models", headers={"X-Request-Id": "after-the-asset"})
    serving.wait_for("id=after-the-asset")
    assert not [line for line in serving.lines if "id=an-asset" in line]
