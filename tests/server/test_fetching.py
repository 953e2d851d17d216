"""Fetching recordings from untrusted servers."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import pytest
import trustme
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.errors import ApiError
from server.references.config import ReferenceSettings
from server.references.fetch import Fetcher, SystemResolver
from tests.server.origins import Answer, drip, endless, origin, page, raw, redirect
from tests.server.serving import ROOT

PERMITTED, PRIVATE = "127.0.0.1", "127.0.0.2"
"""An address that the settings permit, and a private one that they do not."""
MAX_BYTES = 1_000_000
REFUSED, FAILED = "reference_url_refused", "reference_fetch_failed"


class Resolver:
    """A name resolver whose answers may change between lookups."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.lookups: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.lookups.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def fetcher(names: Resolver | None = None, tls: ssl.SSLContext | None = None, **settings: object) -> Fetcher:
    rules = ReferenceSettings.model_validate({"private_hosts": (PERMITTED,), "fetch_seconds": 20, **settings})
    return Fetcher(rules, MAX_BYTES, names or Resolver([PERMITTED]), tls)


async def refusal(url: str, by: Fetcher | None = None) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await (by or fetcher()).fetch(url)
    assert (caught.value.status, caught.value.param) == (400, "ref_audio")
    return caught.value


async def test_lookups_work_again_after_no_thread_could_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    resolve = SystemResolver()
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", refuse)
        for _ in range(20):
            with pytest.raises(RuntimeError, match="thread"):
                async with asyncio.timeout(20):
                    await resolve("localhost", 80)
    async with asyncio.timeout(20):
        assert await resolve("127.0.0.1", 80) == ["127.0.0.1"]


async def test_a_file_is_fetched_unchanged() -> None:
    data = bytes(range(256)) * 100
    async with origin({"/voice.wav?x=1": page(data)}) as here:
        assert await fetcher().fetch(f"http://voices.example:{here.port}/voice.wav?x=1") == data
    (head,) = here.heads
    assert f"host: voices.example:{here.port}" in head.lower()


async def test_requests_carry_no_credentials_or_cookies(monkeypatch: pytest.MonkeyPatch, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("home")
    (folder / ".netrc").write_text("default login someone password secret\n")
    monkeypatch.setenv("NETRC", str(folder / ".netrc"))
    async with origin(address=PRIVATE) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://{PRIVATE}:{proxy.port}")
        pages = {"/a": page(b"", "302 Found", Location="/b", Set_Cookie="session=1; Path=/"), "/b": page(b"file")}
        async with origin(pages) as here:
            assert await fetcher().fetch(f"http://voices.example:{here.port}/a") == b"file"
    assert not proxy.heads
    for head in here.heads:
        names = {line.partition(":")[0].lower() for line in head.splitlines()[1:] if line}
        assert names == {"host", "accept", "accept-encoding", "connection", "user-agent"}
        assert "accept-encoding: identity" in head.lower()


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_follows_redirects(status: str) -> None:
    async with origin({"/a": redirect("b", status), "/b": redirect("//other.example/c")}) as here:
        here.pages["/b"] = redirect(f"//other.example:{here.port}/c", status)
        here.pages["/c"] = page(b"file")
        names = Resolver([PERMITTED])
        assert await fetcher(names).fetch(f"http://voices.example:{here.port}/a") == b"file"
    assert names.lookups == ["voices.example", "voices.example", "other.example"]


async def test_follows_at_most_three_redirects() -> None:
    pages = {f"/{n}": redirect(f"/{n - 1}") for n in range(1, 5)}
    async with origin({**pages, "/0": page(b"file")}) as here:
        assert await fetcher().fetch(f"http://a.example:{here.port}/3") == b"file"
        error = await refusal(f"http://a.example:{here.port}/4")
    assert error.code == FAILED
    assert "3 times" in error.message


async def test_does_not_follow_a_redirect_to_a_private_address() -> None:
    async with origin(address=PRIVATE) as inside, origin() as here:
        here.pages["/a"] = redirect(f"http://inside.example:{inside.port}/secret")
        error = await refusal(f"http://a.example:{here.port}/a", fetcher(Resolver([PERMITTED], [PRIVATE])))
    assert error.code == REFUSED
    assert (len(here.heads), inside.heads) == (1, [])


async def test_a_host_is_resolved_once_for_each_connection() -> None:
    async with origin({"/a": page(b"file")}) as here, origin(address=PRIVATE, port=here.port) as inside:
        names = Resolver([PERMITTED], [PRIVATE])
        assert await fetcher(names).fetch(f"http://rebound.example:{here.port}/a") == b"file"
        assert names.lookups == ["rebound.example"]
        error = await refusal(f"http://rebound.example:{here.port}/a", fetcher(names))
    assert error.code == REFUSED
    assert inside.heads == []


async def test_refuses_a_host_that_rebinds_between_redirects() -> None:
    async with origin({"/a": redirect("/b")}) as here, origin(address=PRIVATE, port=here.port) as inside:
        error = await refusal(f"http://rebound.example:{here.port}/a", fetcher(Resolver([PERMITTED], [PRIVATE])))
    assert error.code == REFUSED
    assert inside.heads == []


async def test_refuses_a_host_if_any_of_its_addresses_is_private() -> None:
    async with origin({"/a": page(b"file")}) as here:
        error = await refusal(f"http://mixed.example:{here.port}/a", fetcher(Resolver([PERMITTED, PRIVATE])))
    assert (error.code, here.heads) == (REFUSED, [])


async def test_tries_the_next_address_if_one_is_unreachable() -> None:
    async with origin({"/a": page(b"file")}) as here:
        by = fetcher(Resolver([PRIVATE, PERMITTED]), private_hosts=(PERMITTED, PRIVATE))
        assert await by.fetch(f"http://two.example:{here.port}/a") == b"file"


async def test_an_unknown_name_and_a_private_one_get_the_same_error() -> None:
    unknown = await refusal("http://unknown.internal/a", fetcher(Resolver([])))
    private = await refusal("http://payroll.internal/a", fetcher(Resolver(["10.1.2.3"])))
    assert (unknown.message, unknown.code) == (private.message, private.code)
    assert "10.1.2.3" not in private.message


@pytest.mark.parametrize(
    "host",
    ["127.0.0.2", "2130706434", "0x7f.2", "127.2", "[::ffff:127.0.0.2]", "[::1]", "0.0.0.0", "[::]", "169.254.169.254"],
)
async def test_recognizes_an_address_in_every_notation(host: str) -> None:
    async with origin({"/a": page(b"file")}, address=PRIVATE) as inside:
        by = Fetcher(ReferenceSettings(), MAX_BYTES, SystemResolver())
        assert (await refusal(f"http://{host}:{inside.port}/a", by)).code == REFUSED
    assert inside.heads == []


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "a..example", "nowhere.invalid", "-"])
async def test_refuses_a_name_that_cannot_be_resolved(host: str) -> None:
    error = await refusal(f"http://{host}/a", Fetcher(ReferenceSettings(), MAX_BYTES, SystemResolver()))
    assert error.code == REFUSED


HANGING_LOOKUPS = """
import asyncio, socket, threading
from server.references.fetch import SystemResolver
started = threading.Semaphore(0)
def never(*_, **__):
    started.release()
    threading.Event().wait()
socket.getaddrinfo = never
async def main():
    resolve = SystemResolver()
    tasks = [asyncio.create_task(resolve("slow.example", 80)) for _ in range(20)]
    for _ in range(8):
        await asyncio.to_thread(started.acquire)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    print(sum(each.name == "resolver" for each in threading.enumerate()), all(task.cancelled() for task in tasks))
asyncio.run(main())
"""


def test_hanging_lookups_are_bounded_and_do_not_delay_exit() -> None:
    command = [sys.executable, "-c", HANGING_LOOKUPS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "8 True\n"


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http:///a",
        "http:a",
        "http://user:secret@a.example/a",
        "http://user@a.example/a",
        "http://a.example:99999/a",
        "http://a.example:0/a",
        "http://a.example:port/a",
        "http://[::1/a",
        "http://a\x00b.example/",
        "http://a.example/" + "a" * 70_000,
        "http://\udcff.example/",
        "http://a.example/\r\nX-More: 1",
    ],
)
async def test_refuses_urls_that_are_not_plain_http_addresses(url: str) -> None:
    error = await refusal(url)
    assert error.code == REFUSED
    assert "secret" not in error.message


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "ftp://a.example/b", "gopher://a.example/b", "//u:p@a.example/b", "http://[::1", "data:,x"],
)
async def test_follows_redirects_to_http_urls_only(location: str) -> None:
    async with origin({"/a": redirect(location)}) as here:
        assert (await refusal(f"http://a.example:{here.port}/a")).code == REFUSED
    assert len(here.heads) == 1


MALICIOUS: dict[str, tuple[Callable[[], Answer], str]] = {
    "endless": (endless, "more than 1000000 bytes"),
    "endless in chunks": (
        lambda: raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"10000\r\n%b\r\n" % bytes(65_536) * 20),
        "more than 1000000 bytes",
    ),
    "declared length too large": (lambda: page(b"", Content_Length="1000001"), "more than 1000000 bytes"),
    "declared length with 5000 digits": (lambda: page(b"", Content_Length="9" * 5000), "closed the connection early"),
    "wrong declared length": (lambda: page(b"abc", Content_Length="900"), "closed the connection early"),
    "not http": (lambda: raw(b"SSH-2.0-OpenSSH_9.6\r\n" * 3), "closed the connection early"),
    "empty response": (lambda: raw(b""), "closed the connection early"),
    "endless headers": (lambda: raw(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"a" * 10**6), "closed the connection early"),
    "a compressed bomb": (
        lambda: page(gzip.compress(bytes(10**8)), Content_Encoding="gzip"),
        "compressed",
    ),
    "a redirect with an endless body": (lambda: endless("302 Found", Location="/a"), "3 times"),
    "not found": (lambda: page(b"private words", "404 Not Found"), "status 404"),
    "partial content": (lambda: page(b"abc", "206 Partial Content"), "status 206"),
    "a redirect to nowhere": (lambda: page(b"", "302 Found", Location=""), "3 times"),
    "multiple choices": (lambda: page(b"", "300 Multiple Choices", Location="/b"), "status 300"),
}


@pytest.mark.parametrize("case", MALICIOUS)
async def test_refuses_a_malicious_response(case: str) -> None:
    make, words = MALICIOUS[case]
    async with origin({"/a": make()}) as here:
        error = await refusal(f"http://a.example:{here.port}/a")
    assert words in error.message
    assert "private words" not in error.message


HTTP_RESPONSES = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.sampled_from([b"HTTP/1.1 ", b"200 OK", b"302 Found", b"\r\n", b"\r\n\r\n", b"Location: ", b"http://", b":"]),
        st.sampled_from([b"Content-Length: ", b"Transfer-Encoding: chunked", b"Content-Encoding: ", b"5\r\n", b"-1"]),
    ),
    max_size=12,
).map(b"".join)


@given(start=st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 302 Found\r\nLocation: "]), rest=HTTP_RESPONSES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_every_response_gives_a_file_or_a_refusal(start: bytes, rest: bytes) -> None:
    async def fetch() -> None:
        async with origin({"/a": raw(start + rest)}) as here:
            try:
                assert isinstance(await fetcher(fetch_seconds=2).fetch(f"http://a.example:{here.port}/a"), bytes)
            except ApiError as error:
                assert error.param == "ref_audio"

    asyncio.run(fetch())


@pytest.mark.parametrize("head", [None, b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_slow_drip_times_out(head: bytes | None) -> None:
    async with origin({"/a": drip(head)}) as here:
        error = await refusal(f"http://a.example:{here.port}/a", fetcher(fetch_seconds=0.3))
        assert error.code == FAILED
        await here.left.wait()


async def test_a_hanging_resolver_times_out() -> None:
    class Mute(Resolver):
        async def __call__(self, host: str, port: int) -> Sequence[str]:
            return await asyncio.get_running_loop().create_future()

    assert (await refusal("http://a.example/a", fetcher(Mute([]), fetch_seconds=0.1))).code == FAILED


async def test_cancelling_a_fetch_closes_the_connection() -> None:
    async with origin({"/a": drip()}) as here:
        fetching = asyncio.create_task(fetcher().fetch(f"http://a.example:{here.port}/a"))
        await here.requested.wait()
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        await here.left.wait()


async def test_fetching_urls_can_be_disabled() -> None:
    async with origin({"/a": page(b"file")}) as here:
        error = await refusal(f"http://a.example:{here.port}/a", fetcher(fetch_urls=False))
    assert (error.code, here.heads) == ("not_supported", [])


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(authority: trustme.CA, host: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    return context


def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_https_verifies_the_host_name(authority: trustme.CA) -> None:
    async with origin({"/a": page(b"file")}, tls=server_tls(authority, "a.example")) as here:
        tls = client_tls(authority)
        assert await fetcher(tls=tls).fetch(f"https://a.example:{here.port}/a") == b"file"
        for other in ("b.example", PERMITTED):
            error = await refusal(f"https://{other}:{here.port}/a", fetcher(tls=tls))
            assert (error.code, "certificate" in error.message) == (FAILED, True)
    assert len(here.heads) == 1


async def test_https_uses_the_system_certificate_authorities(authority: trustme.CA) -> None:
    async with origin({"/a": page(b"file")}, tls=server_tls(authority, "a.example")) as here:
        assert (await refusal(f"https://a.example:{here.port}/a")).code == FAILED


async def test_refuses_a_redirect_from_https_to_http(authority: trustme.CA) -> None:
    async with origin({"/a": page(b"file")}) as plain, origin(tls=server_tls(authority, "a.example")) as safe:
        safe.pages["/a"] = redirect(f"http://a.example:{plain.port}/a")
        error = await refusal(f"https://a.example:{safe.port}/a", fetcher(tls=client_tls(authority)))
    assert (error.code, plain.heads) == (REFUSED, [])


async def test_each_host_of_a_redirect_needs_its_own_certificate(authority: trustme.CA) -> None:
    async with origin({}, tls=server_tls(authority, "a.example")) as here:
        here.pages["/a"] = redirect(f"https://b.example:{here.port}/a")
        error = await refusal(f"https://a.example:{here.port}/a", fetcher(tls=client_tls(authority)))
    assert (error.code, len(here.heads)) == (FAILED, 1)
