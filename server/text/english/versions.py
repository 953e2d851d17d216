"""Versions and model numbers as words: v2.1.3, Python 3.11, iOS 17.2, GPT-4, 1.0.0-beta.2, HTTP/2, COVID-19."""

from __future__ import annotations

import re

from server.text.english import letters, numbers
from server.text.english.rules import Rule, alternatives, beside, first_words, rule
from server.text.english.unit_words import UNITS
from server.text.patterns import lazy

_PRODUCTS = """
    Python Java Node Ruby PHP Perl Go Rust Swift Kotlin Scala Django Flask Rails React Angular Vue Svelte Next Laravel
    Spring Ubuntu Debian Fedora Android iOS iPadOS macOS watchOS tvOS Windows Linux Chrome Firefox Safari Edge Docker
    Kubernetes Postgres PostgreSQL MySQL MariaDB SQLite MongoDB Redis Kafka Nginx Apache TypeScript JavaScript NumPy
    Pandas PyTorch TensorFlow Keras CUDA Unity Unreal Blender Photoshop Bluetooth USB HDMI OpenGL Vulkan DirectX
    OpenSSL TLS SSL Terraform Ansible Jenkins Git Bash CMake GCC Clang LLVM Llama GPT Claude Gemini Qwen Mistral
    Whisper Gradle Maven Spark Hadoop Airflow FastAPI Pydantic Tailwind Bootstrap jQuery Webpack Vite npm pip Minecraft
    Godot HTML CSS ES ECMAScript Excel Word Office WordPress Drupal Magento
""".split()
_RELEASES = "version versions release update build firmware patch ver.".split()
_STAGES = "alpha beta rc dev preview snapshot a b post final stable lts nightly hotfix pre SNAPSHOT RC LTS".split()
_SUFFIX = rf"(?:[-.]?(?P<stage>{'|'.join(_STAGES)})[-.]?(?P<count>\d{{0,3}})(?!\w))?"
_PART = r"\d{1,4}"
_THREE = rf"""
    (?<![\w.,$€£\-/]) (?P<v>[Vv](?:er(?:sion)?)?\.?[ ]?)?
    (?P<number>{_PART}(?:\.{_PART}){{2,4}}) (?:(?P<letter>[a-z])(?!\w)|{_SUFFIX}) (?!\w|\.\d)
"""
_RANGE = rf"""
    (?<!\w) (?P<name>(?i:{alternatives(_RELEASES)})[ ]v?) (?P<start>\d{{1,3}}(?:\.\d{{1,3}}){{1,2}}) [ ]?[-–][ ]?v?
    (?P<end>\d{{1,3}}(?:\.\d{{1,3}}){{1,2}}) (?!\w|\.\d)
"""
_V = rf"""
    (?<![\w.\-]) (?P<v>[Vv]|[Vv]er\.?[ ]?) (?P<number>{_PART}(?:\.{_PART}){{0,4}}) {_SUFFIX} (?:(?P<x>\.x)|(?!\w|\.\d))
"""
_NAMED = rf"""
    (?<![\w.\-]) (?P<name>{alternatives(_PRODUCTS)}|(?i:{alternatives(_RELEASES)}))
    (?P<gap>[ ]|-|/) (?P<v>v)? (?P<number>{_PART}\.{_PART}) {_SUFFIX} (?P<plus>\+)? (?P<x>\.x)? (?![\w%]|[.,]\d)
"""
_DOTTED_X = r"(?<![\w.])(?P<number>\d{1,3}(?:\.\d{1,3}){0,2})\.x(?!\w)"
_PINNED = rf"""
    (?<=[a-z\d]) (?P<operator>==|>=|<=|~=|!=|@|(?<=[a-z]{{3}})[<>]) (?P<number>{_PART}(?:\.{_PART}){{0,3}}) (?!\w|\.\d)
"""
_OPERATORS = {
    "==": "equals",
    ">=": "greater than or equal to",
    "<=": "less than or equal to",
    "~=": "compatible with",
    "!=": "not equal to",
    "@": "at",
    "<": "less than",
    ">": "greater than",
}
_BOUND = rf"(?:===?|>=|<=|~=|!=|\^|~|<|>)[ ]?v?{_PART}(?:\.{_PART}){{0,3}}(?:\.[*x])?"
_SPECIFIER = rf"""
    (?<![\w<>=~!^]) (?: (?P<many>{_BOUND}(?:,[ ]?{_BOUND}){{1,4}})
      | (?P<caret>(?:(?:\^|~=)[ ]?v?{_PART}|~v?{_PART}\.{_PART})(?:\.{_PART}){{1,3}})
      | (?P<one>(?:>=|<=|~=|==|!=)[ ]?v?{_PART}(?:\.{_PART}){{1,3}}) ) (?![\w^*]|\.\d)
  | (?<=[a-z\d\]])(?P<joined>{_BOUND}(?:,[ ]?{_BOUND}){{1,4}})(?![\w^*]|\.\d)
"""
"""Python >=3.9,<4.0; ^1.2.3."""
_SPECIFIER_NEEDS = (
    *(f",{space}{operator}" for space in ("", " ") for operator in "=<>~!^"),
    *(f"{operator}{space}{after}" for operator in "=^~" for space in ("", " ") for after in (r"\d", "v")),
)
_AGENT = rf"(?<![\w/.\-])(?P<name>[A-Za-z][\w\-]{{1,20}})/v?(?P<number>{_PART}(?:\.{_PART}){{1,3}})(?![\w/\-]|\.[\dx])"
"""nginx/1.18.0."""
_ONE_BOUND = lazy(r"(?P<operator>[^\w\s.,]+) ?v?(?P<number>[\d.]*\d)(?P<x>\.[*x])?")
_BOUND_WORDS = {
    ">=": "greater than or equal to",
    "<=": "less than or equal to",
    "~=": "compatible with",
    "==": "equal to",
    "===": "equal to",
    "!=": "not equal to",
    "<": "less than",
    ">": "greater than",
    "^": "caret",
    "~": "tilde",
}
_SPECIFIED_BEFORE = lazy(rf"(?i:\b(?:{'|'.join(_PRODUCTS)}|requires?|version|pip install [\w-]+) ?$|[\"']$)")
"""What a version is required of."""
_SLASHED = r"(?<!\w)(?P<name>HTTP|TCP|IP|SOCKS|PS|OS)/(?P<number>\d(?:\.\d)?)(?!\w)"
_HALF_YEAR = r"(?<![\w.])(?P<year>1[5-9]|2\d)H(?P<half>[12])(?!\w)"
"""Windows 11 22H2."""
_EPISODE = r"(?<!\w)[Ss](?P<season>\d{1,2})[ ]?[Ee](?P<episode>\d{1,3})(?!\w)"
_DASHED = r"""
    (?<![\w.\-]) (?<!\b[Gg]rade[ ])(?<!\b[Gg]rades[ ]) (?P<name>gpt|[A-Z][A-Za-z]{0,15}) -
    (?P<number>\d{1,4}) (?P<point>\.\d{1,2})? (?P<letter>[a-z]{0,2}) (?: -(?=[A-Za-z]) | (?![\w\-]|\.\d) )
"""
_NAME_BEFORE = lazy(r"\b[A-Z][A-Za-z]+ $")
_ENGINES = frozenset(("V6", "V8", "V10", "V12"))
"""Engines, of cars and of JavaScript. A version would have a small v."""
_SPOKEN_STAGES = {"rc": "R C", "lts": "L T S", "a": "A", "b": "B"}


def version(number: str) -> str:
    """Return a version number in words: "3.11.2" is "three point eleven point two"."""
    return " point ".join(map(_part, number.split(".")))


def _part(text: str) -> str:
    return numbers.digits(text) if text.startswith("0") or len(text) > 3 else numbers.cardinal(int(text))


def _suffix(match: re.Match[str]) -> str:
    if not match["stage"]:
        return ""
    stage = match["stage"].lower()
    count = f" {numbers.cardinal(int(match['count']))}" if match["count"] else ""
    return f" {_SPOKEN_STAGES.get(stage, stage)}{count}"


def _v(match: re.Match[str]) -> str:
    if match[0] in _ENGINES:
        return f"V {numbers.cardinal(int(match['number']))}"
    if match["v"] == "V" and "." not in match[0] and _NAME_BEFORE.search(match.string, 0, match.start()):
        return f"V {numbers.grouped(match['number'])}"
    head = "version " if match["v"] else ""
    x = " point X" if match.groupdict().get("x") else ""
    letter = f" {letters.spell(match['letter'])}" if match.groupdict().get("letter") else ""
    return head + version(match["number"]) + letter + x + _suffix(match)


def _named(match: re.Match[str]) -> str:
    name = "version" if match["name"].lower() == "ver." else match["name"]
    head = f"{name} version " if match["v"] else f"{name} "
    tail = (" plus" if match["plus"] else "") + (" point X" if match["x"] else "")
    return head + version(match["number"]) + _suffix(match) + tail


def _pinned(match: re.Match[str]) -> str:
    return f" {_OPERATORS[match['operator']]} {version(match['number'])}"


def _specifier(match: re.Match[str]) -> str:
    """Return bounds of a version in words. One bound of a number with a single point can also be a comparison."""
    text = match[0]
    if match["one"] and text.count(".") < 2 and not _SPECIFIED_BEFORE.search(match.string, 0, match.start()):
        return text
    words = []
    for bound in _ONE_BOUND.finditer(text):
        x = " point X" if bound["x"] else ""
        words.append(f"{_BOUND_WORDS[bound['operator']]} {version(bound['number'])}{x}")
    space = " " if re.match(r"[\w\]]", match.string[match.start() - 1 : match.start()]) else ""
    return space + ", ".join(words)


def _agent(match: re.Match[str]) -> str:
    """Return the name and the version of a program. A unit before the slash begins a second amount."""
    return match[0] if match["name"] in UNITS else f"{match['name']} {version(match['number'])}"


def _episode(match: re.Match[str]) -> str:
    return f"season {numbers.cardinal(int(match['season']))}, episode {numbers.cardinal(int(match['episode']))}"


def _dashed(match: re.Match[str]) -> str:
    """Return a name with a number, "GPT-4o-mini", "COVID-19", "F-16", without its dashes."""
    number, point = match["number"], match["point"]
    words = version(number + point) if point else numbers.grouped(number)
    letter = f" {letters.spell(match['letter'])}" if match["letter"] else ""
    name = letters.spell(match["name"]) if match["name"].islower() else match["name"]
    return f"{name} {words}{letter}{' ' if match[0].endswith('-') else ''}"


EARLY: tuple[Rule, ...] = (
    rule(_SPECIFIER, _specifier, _SPECIFIER_NEEDS),
    rule(_AGENT, _agent, "unit/digit"),
    rule(
        _HALF_YEAR,
        lambda match: f"{numbers.cardinal(int(match['year']))} H {numbers.cardinal(int(match['half']))}",
        "letter digit",
    ),
)
"""Run before code, in which the operators are read in another way."""

RULES: tuple[Rule, ...] = (
    rule(
        _RANGE,
        lambda match: f"{match['name']}{version(match['start'])} to {version(match['end'])}",
        first_words(_RELEASES),
    ),
    rule(_EPISODE, _episode, "letter digit"),
    rule(
        r"(?<!\w)S(?P<season>\d{1,2})(?=[ ](?:finale|premiere|trailer|ending)\b)",
        lambda match: f"season {numbers.cardinal(int(match['season']))}",
        ("finale", "premiere", "trailer", "ending"),
    ),
    rule(_NAMED, _named, first_words((*_PRODUCTS, *_RELEASES))),
    rule(_THREE, _v, [rf".{each}." for each in (r"\d", r"\d\d", r"\d\d\d", r"\d\d\d\d")]),
    rule(_V, _v, ("letter digit", "ver", "version")),
    rule(_PINNED, _pinned, beside("=@<>", "", spaced=False)),
    rule(_DOTTED_X, lambda match: f"{version(match['number'])} point X", ".x"),
    rule(_SLASHED, lambda match: f"{match['name']} {version(match['number'])}", "/"),
    rule(_DASHED, _dashed, "letter digit"),
)
