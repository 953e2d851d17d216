"""The key file and the ``sonant keys`` commands."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from server.cli.main import create_app
from server.errors import ApiError
from server.keys.key_file import digest_of, key_id, parse_lines
from server.keys.usage import KeyUsage, Usage
from server.keys.valid_keys import Keys, follow_key_file, load_keys
from server.settings import SettingsError, load_settings
from server.telemetry.record import RequestRecord

HASH = "sha256:" + "0" * 64
OWNER = "owner=" + "a" * 16
DAY = 86_400.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def keys_command(*arguments: object, stdin: str = "") -> Result:
    return CliRunner().invoke(create_app(["keys"]), ["keys", *map(str, arguments)], input=stdin)


def add(file: Path, name: str, *options: object, stdin: str = "") -> str:
    """Add a key and return what the command prints: the new key."""
    done = keys_command("add", file, name, *options, stdin=stdin)
    assert done.exit_code == 0, done.stderr
    return done.stdout.strip()


def test_a_new_key_is_printed_and_only_its_hash_is_stored(file: Path) -> None:
    key = add(file, "app", "--max-requests", 4, "--audio-seconds-per-day", 3600)
    assert len(key) > 40
    assert key not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    (entry,) = parse_lines(file.read_text().splitlines(), file)
    assert (entry.digest, entry.owner, entry.name) == (digest_of(key), key_id(key), "app")
    assert (entry.max_requests, entry.audio_seconds_per_day) == (4, 3600)
    assert Keys([entry]).identify(key) == entry


def test_names_are_unique_and_keys_can_be_replaced_and_revoked(file: Path) -> None:
    file.write_text("# the keys of our apps\nplain-key # of a script\n")
    first = add(file, "app", "--max-requests", 4)
    refused = keys_command("add", file, "app")
    assert refused.exit_code == 1
    assert "has a key 'app' already" in refused.stderr
    second = add(file, "app", "--replace")
    keys = Keys(parse_lines(file.read_text().splitlines(), file))
    assert keys.identify(first) is None
    replaced = keys.identify(second)
    assert replaced is not None
    assert (replaced.owner, replaced.max_requests) == (key_id(first), 4)
    assert keys.identify("plain-key")
    assert "app" in keys_command("list", file).stdout
    assert keys_command("revoke", file, "app").exit_code == 0
    assert file.read_text() == "# the keys of our apps\nplain-key # of a script\n"
    unknown = keys_command("revoke", file, "app")
    assert unknown.exit_code == 1
    assert "no key 'app'" in unknown.stderr


def test_commands_do_not_edit_the_file_at_the_same_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(file, "app")
    monkeypatch.setattr("server.cli.keys._LOCK_SECONDS", 0.0)
    other_command = os.open(file.parent, os.O_RDONLY)
    fcntl.flock(other_command, fcntl.LOCK_EX)
    before = file.read_text()
    for arguments in (("add", file, "other"), ("revoke", file, "app")):
        refused = keys_command(*arguments)
        assert refused.exit_code == 1
        assert f"{file.parent} is locked: another writer" in refused.stderr
    assert file.read_text() == before
    os.close(other_command)
    add(file, "other")


def test_a_named_key_that_is_also_the_api_key_keeps_its_limits(file: Path, tmp_path: Path) -> None:
    key = add(file, "app", "--max-requests", 4)
    config = tmp_path / "sonant.yaml"
    config.write_text(f"api_key: {key}\nkeys_file: {file}\nengine:\n  model: org/model\n")
    entry = load_keys(load_settings(config)).identify(key)
    assert entry is not None
    assert (entry.name, entry.max_requests) == ("app", 4)


def test_a_key_in_plain_text_is_converted_with_its_voices(file: Path) -> None:
    file.write_text("plain-key\nother-key\n")
    assert add(file, "script", "--existing", stdin="plain-key\n") == ""
    assert "plain-key" not in file.read_text()
    found = Keys(parse_lines(file.read_text().splitlines(), file)).identify("plain-key")
    assert found is not None
    assert (found.name, found.owner) == ("script", key_id("plain-key"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"app {HASH}", "owner=16 hexadecimal digits is missing"),
        (f"app {HASH[:-1]} {OWNER}", "64 hexadecimal digits"),
        (f"app {HASH} owner=short", "got 'owner=short'"),
        (f"app {HASH} {OWNER} max_requests=0", "got 'max_requests=0'"),
        (f"app {HASH} {OWNER} colour=blue", "got 'colour=blue'"),
        (f"a/b {HASH} {OWNER}", "the name must match"),
        (f"app {HASH} {OWNER}\napp {HASH} owner={'b' * 16}", "'app' is used above with another owner"),
        ("caf\u00e9", "printable ASCII"),
    ],
)
def test_an_invalid_line_is_named(file: Path, line: str, reason: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        parse_lines(line.splitlines(), file)
    assert reason in str(refusal.value)
    assert f"{file}, line {len(line.splitlines())}" in str(refusal.value)
    assert "0" * 64 not in str(refusal.value)


async def test_a_quota_starts_anew_each_day(file: Path) -> None:
    add(file, "app", "--audio-seconds-per-day", 10)
    keys = Keys(parse_lines(file.read_text().splitlines(), file))
    (owner,) = (key.owner for key in parse_lines(file.read_text().splitlines(), file))
    now = 20_000 * DAY + 3600
    usage = KeyUsage(keys, lambda: now)
    usage.ended(RequestRecord("r", owner=owner, samples=9 * 24_000))
    with await usage.request(owner):
        usage.ended(RequestRecord("r", owner=owner, samples=2 * 24_000))
    with pytest.raises(ApiError) as refusal, await usage.request(owner):
        pass
    assert (refusal.value.status, refusal.value.code) == (429, "insufficient_quota")
    assert refusal.value.retry_after == pytest.approx(DAY - 3600, abs=1)
    now += DAY
    with await usage.request(owner):
        pass


async def test_the_end_of_a_request_is_reported_although_its_key_was_revoked(file: Path) -> None:
    add(file, "app", "--max-requests", 1)
    (key,) = parse_lines(file.read_text().splitlines(), file)
    keys = Keys([key])
    usage = KeyUsage(keys)
    running: list[int] = []
    usage.on_change = lambda owner: running.append(usage.here(owner).running)
    with await usage.request(key.owner):
        keys.replace([])
    assert running == [1, 0]


async def test_audio_of_other_processes_counts_for_its_own_day(file: Path) -> None:
    add(file, "app", "--audio-seconds-per-day", 10)
    keys = Keys(parse_lines(file.read_text().splitlines(), file))
    (owner,) = (key.owner for key in parse_lines(file.read_text().splitlines(), file))
    now = 20_000 * DAY + 3600
    usage = KeyUsage(keys, lambda: now)
    usage.ended(RequestRecord("r", owner=owner, samples=4 * 24_000))
    usage.set_elsewhere(owner, Usage(0, 7.0, 19_999))
    usage.check(owner)
    usage.set_elsewhere(owner, Usage(0, 7.0, 20_000))
    with pytest.raises(ApiError, match="has received 11 s"):
        usage.check(owner)
    now += DAY
    usage.check(owner)


async def test_a_change_between_loading_and_following_the_file_is_used(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.keys.valid_keys._POLL_SECONDS", 0.01)
    (config := tmp_path / "sonant.yaml").write_text("{}")
    file.write_text("old-key\n")
    settings = load_settings(config, {"engine": {"model": "org/model"}, "keys_file": str(file)})
    keys = load_keys(settings)
    file.write_text("another-key\n")
    following = asyncio.create_task(follow_key_file(keys, lambda: settings))
    try:
        async with asyncio.timeout(20):
            while keys.identify("another-key") is None:
                await asyncio.sleep(0.01)
        assert keys.identify("old-key") is None
    finally:
        following.cancel()
