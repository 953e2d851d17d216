"""The page of all settings: ``python -m scripts.configuration_page > docs/reference/configuration.md``.

It is made of the settings' own JSON schema, so a key, a default or a bound is written down once, in the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from server.settings import Settings

HEAD = """\
# Configuration

<!-- made by scripts/configuration_page.py of the settings in the code -->

`sonant serve --config FILE` reads a YAML file; unless one is named it is `configs/pocket.yaml`. Environment variables win over the file, and flags (`sonant serve --help`) over both. Paths in the file are relative to it. An unknown key is an error, in the file and in the environment. `sonant doctor` tells what this machine can run.

```yaml
host: 127.0.0.1
port: 8000
voice_aliases: {alloy: serena, echo: ryan}
engine:
  model: /srv/checkpoints/Qwen3-TTS-12Hz-0.6B-CustomVoice
  talker: {slots: 8}
limits: {max_waiting: 20}
log_format: json
```

In the environment every key has a name of its own; lists and mappings are JSON there: `SONANT_MODEL_ALIASES='["tts-1"]'`.
"""  # noqa: E501


def page() -> str:
    """The whole page, in Markdown."""
    schema = Settings.model_json_schema()
    return "\n".join([HEAD, *_sections(schema, schema["$defs"], ())])


def _sections(model: dict[str, Any], models: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """A table of the plain keys of ``model``, then a section for each group in it."""
    yield f"## {'.'.join(path) or 'At the top'}\n"
    if path:
        yield f"{model['description']}\n"
    yield "| key | type | default | |\n|---|---|---|---|"
    groups = {}
    for name, key in model["properties"].items():
        if reference := key.get("$ref"):
            groups[name] = models[reference.rpartition("/")[2]]
        else:
            yield _row((*path, name), key)
    yield ""
    for name, group in groups.items():
        yield from _sections(group, models, (*path, name))


def _row(path: tuple[str, ...], key: dict[str, Any]) -> str:
    variable = "SONANT_" + "__".join(path).upper()
    meaning = key["description"].replace("|", r"\|")
    return f"| `{path[-1]}`<br>`{variable}` | {_type(key)} | {_default(path, key)} | {meaning} |"


def _type(key: dict[str, Any]) -> str:
    """The type of a key in words, with its bounds."""
    if options := key.get("anyOf"):
        return _type(next(option for option in options if option["type"] != "null"))
    if choices := key.get("enum"):
        return " or ".join(f"`{choice}`" for choice in choices)
    match key["type"]:
        case "array":
            return f"list of {_type(key['items'])}"
        case "object":
            return "mapping of names"
        case "string" if key.get("format") == "path":
            return "path"
    words = {"string": "text", "boolean": "`true` or `false`", "integer": "whole number", "number": "number"}
    return words[key["type"]] + _bounds(key)


def _bounds(key: dict[str, Any]) -> str:
    signs = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}
    told = [f"{sign} {key[name]}" for name, sign in signs.items() if name in key]
    return "".join(f", {bound}" for bound in told)


def _default(path: tuple[str, ...], key: dict[str, Any]) -> str:
    """The default as it would be written in YAML; of one that is found out when the server starts, what it comes to."""
    if "default" not in key:
        return _found_out(path)
    match key["default"]:
        case None:
            return "unset"
        case [*items]:
            return ", ".join(f"`{item}`" for item in items) or "none"
        case bool(value):
            return f"`{str(value).lower()}`"
        case value:
            return f"`{value}`"


def _found_out(path: tuple[str, ...]) -> str:
    model: Any = Settings
    for name in path[:-1]:
        model = model.model_fields[name].annotation
    field = model.model_fields[path[-1]]
    if field.is_required():
        return "must be given"
    return f"`{field.get_default(call_default_factory=True)}`".replace("`{}`", "none")


if __name__ == "__main__":
    print(page(), end="")
