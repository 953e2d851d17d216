"""Identifiers of publications and standards: doi:10.1000/xyz123, arXiv:1706.03762v5, ISBN 0-306-40615-2, RFC 2616."""

from __future__ import annotations

import re

from server.text.english import letters, numbers, web
from server.text.english.rules import Rule, rule

_DOI = r"(?<![\w/.])(?i:doi)(?P<colon>:)?[ ]?(?P<doi>10\.\d{4,9}/[^\s\"'<>()\[\],;]{0,80}[\w/])"
_ARXIV = r"(?<![\w/.])(?i:arxiv):[ ]?(?P<id>\d{4}\.\d{4,5}|[a-z\-]{2,12}/\d{7})(?:v(?P<version>\d{1,2}))?(?!\w|\.\d)"
_NUMBERED = r"(?<!\w)(?P<label>PMID|PMCID|OCLC|ORCID):?[ ](?P<code>(?:PMC)?\d[\dX\-]{3,20})(?!\w)"
_ISBN = r"""
    (?<!\w) (?P<label>ISBN|ISSN|IBAN|EAN|UPC) (?:-?1[03])? (?P<link>:?[ ](?:is[ ]|number[ ]|\#[ ]?)?|:)
    (?P<code>[\dX\- ]{8,30}) (?!\w)
"""
_STANDARD = r"""
    (?<!\w) (?P<label>RFCs?|IEEE|PEP|BCP|ISO(?:/IEC)?|IEC|EN|DIN|ASTM) (?P<gap>[ ]|-(?=\d{4}))
    (?P<number>[1-9]\d{2,4}) (?:-(?P<part>\d{1,2})(?![\w\-]))? (?::(?P<year>(?:19|20)\d\d))? (?![\w%\-]|[.,:]\d)
"""
_CODEC = r"(?<![\w.])(?P<label>[HGTX])\.(?P<number>\d{3,4})(?![\w.]\w|\w)"
"""H.264, G.711, X.509: recommendations of the ITU."""


def _doi(match: re.Match[str]) -> str:
    return f"D O I{',' if match['colon'] else ''} {web.speak_pieces(match['doi'])}"


def _arxiv(match: re.Match[str]) -> str:
    version = f" version {numbers.cardinal(int(match['version']))}" if match["version"] else ""
    if match["id"][0].isdecimal():
        return f"archive {' dot '.join(map(numbers.digits, match['id'].split('.')))}{version}"
    return f"archive {web.speak_pieces(match['id'])}{version}"


def _isbn(match: re.Match[str]) -> str:
    code, link = match["code"], match["link"].strip(": ")
    words = ", ".join(letters.spell(" ".join(group)) for group in re.findall(r"[\dX]+", code))
    link = f" {'number' if link == '#' else link}" if link else ""
    return f"{letters.spell(match['label'])}{link} {words}{' ' if code.endswith(' ') else ''}"


def _standard(match: re.Match[str]) -> str:
    """Return a number in pairs, "twenty-six sixteen", but ISO 9001 as "nine thousand one"."""
    number = match["number"]
    if int(number) % 1000 < 10:
        words = numbers.cardinal(int(number))
    elif len(number) == 5:
        words = f"{numbers.cardinal(int(number[:2]))} {numbers.grouped(number[2:])}"
    else:
        words = numbers.grouped(number)
    part = f" {numbers.cardinal(int(match['part']))}" if match["part"] else ""
    year = f", {numbers.year(int(match['year']))}" if match["year"] else ""
    return f"{match['label']} {words}{part}{year}"


RULES: tuple[Rule, ...] = (
    rule(_DOI, _doi, ("doi",)),
    rule(_ARXIV, _arxiv, ("arxiv",)),
    rule(
        _NUMBERED,
        lambda match: f"{letters.spell(match['label'])} {letters.spell(' '.join(match['code'].replace('-', '')))}",
        ("pmid", "pmcid", "oclc", "orcid"),
    ),
    rule(_ISBN, _isbn, ("isbn", "issn", "iban", "ean", "upc")),
    rule(_STANDARD, _standard, ("rfc", "rfcs", "ieee", "pep", "bcp", "iso", "iec", "en", "din", "astm")),
    rule(_CODEC, lambda match: f"{match['label']} dot {numbers.grouped(match['number'])}", ("H.", "G.", "T.", "X.")),
)
"""Run before paths, dates and phone numbers, for which these could be taken."""
