"""A reload keeps settings that need a restart, and the settings in use survive the HTTP process."""

from __future__ import annotations

import os

from server.reload.applied import AppliedSettings
from server.restart_settings import keep_restart_settings
from server.settings import Settings, load_settings


def settings(**flags: object) -> Settings:
    return load_settings(flags=flags)


def test_only_settings_that_need_a_restart_are_kept_and_named() -> None:
    old = settings()
    new = settings(
        port=9000,
        grpc={"port": 9001},
        limits={"drain_seconds": 3, "max_input_chars": 5},
        default_voice="adam",
        log_format="json",
    )
    kept, names = keep_restart_settings(new, old)
    assert names == ["port", "log_format", "limits.drain_seconds", "grpc.port"]
    assert kept == settings(limits={"max_input_chars": 5}, default_voice="adam")
    assert kept.all_models[0].engine == old.all_models[0].engine
    assert (new.port, new.limits.drain_seconds) == (9000, 3)


def test_the_same_configuration_keeps_nothing() -> None:
    assert keep_restart_settings(settings(api_key="k"), settings(api_key="k")) == (settings(api_key="k"), [])


def test_applied_settings_are_those_of_the_last_reload_also_of_one_in_another_process() -> None:
    first, second = settings(), settings(api_key="secret", model_aliases=["x" * 1000])
    applied = AppliedSettings(first)
    assert applied.get() is first
    if (child := os.fork()) == 0:
        applied.set(settings(default_voice="adam"))
        applied.set(second)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert applied.get() == second
    assert applied.get().api_key == second.api_key


def test_settings_that_are_too_large_or_damaged_are_not_used() -> None:
    first = settings()
    applied = AppliedSettings(first)
    applied.set(settings(model_aliases=["x" * (9 << 20)]))
    assert applied.get() is first
    applied.set(settings(default_voice="adam"))
    applied._memory[100] ^= 1
    assert applied.get() is first
