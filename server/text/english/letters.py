"""Spells words letter by letter, as "F B I", and decides which words to spell."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.acronym_words import CUSTOM, LETTERS, NAMES, SHORT_WORDS, WORDS
from server.text.english.first_names import FIRST_NAMES
from server.text.patterns import lazy

_PIECES = lazy(r"\d+|[^\W\d_]|&")
_ONSETS = frozenset(
    "bl br ch cl cr dr dw fl fr gh gl gn gr kn kr ph pl pr ps rh sc sh sk sl sm sn sp sq st sv sw th tr tw wh wr zh "
    "sch scr shr spl spr squ str thr".split()
)
"""Groups of consonants that an English word may begin with."""
_CODAS = frozenset(
    """
    bb bs bt ch ck cks cs ct cts dd ds dg dth ff ffs fs ft fts ght ghts gg gh gn gs kl ks ld lds lf lfs lk lks
    ll lls lm lms lp lps ls lt lts lth mb mbs mn mp mps mph mpt ms mpts nch nd nds ng ngs ngst ngth ngths nk nks
    nn ns nt nth nths nts ph phs pp ps pt pts rb rbs rc rch rd rds rf rfs rg rge rk rks rl rld rlds rls rm rms
    rn rns rp rps rr rs rst rsts rt rts rth rths rve sh shed sk sks sm sms sp sps ss st sts tch th ths thm tt ts
    bbs cht dds fth fths ggs gns hms hn lb lch lft ln lph lsh ltz nns nx pps pth pths rnt rrs rsh rtz wt wts xth
    tz wd wds wl wls wn wns wk wks ws wth wths wds xt xts zz
    """.split()
)
"""Groups of consonants that an English word may end with."""
_CONSONANTS = lazy(r"[b-df-hj-np-tv-xz]+")
_LONGEST_RUN = 3
_LONGEST_SPELLED = 5
_SHORT_NAMES = frozenset("JIM PIP TOM JOE BOB BEN AMY SUE".split())
"""Names of three letters that are no acronyms."""


def spell(text: str) -> str:
    """Return ``text`` letter by letter: "FBI" is "F B I", "MP3" "M P three"."""
    words = []
    for piece in _PIECES.findall(text):
        if piece == "&":
            words.append("and")
        else:
            words.append(numbers.grouped(piece) if piece[0].isdecimal() else piece.upper())
    return " ".join(words)


def spell_plural(text: str) -> str:
    """Return the letters of a plural: "CPUs" (without its s) is "C P U's"."""
    return f"{spell(text)}'s"


def pronounceable(word: str) -> bool:
    """Return whether a word in lower case can be pronounced as an English word."""
    if not re.search(r"[aeiouy]", word) or len(set(word)) == 1:
        return False
    runs = _CONSONANTS.findall(word)
    if any(len(run) > _LONGEST_RUN + (len(word) > _LONGEST_SPELLED) for run in runs):
        return False
    first = _CONSONANTS.match(word)
    last = runs[-1] if runs and word.endswith(runs[-1]) else ""
    return (first is None or len(first[0]) == 1 or first[0] in _ONSETS) and (len(last) < 2 or last in _CODAS)


def acronym(word: str) -> str:
    """Return the reading of a word in capitals that stands among other words: "NASA", "FBI", "VERY"."""
    lower = word.lower()
    if word in CUSTOM:
        return CUSTOM[word]
    if word in LETTERS:
        return spell(word)
    if word in WORDS or (word.capitalize() in FIRST_NAMES and (len(word) > _LONGEST_RUN or word in _SHORT_NAMES)):
        return word.capitalize()
    if lower in SHORT_WORDS:
        return lower
    if len(word) <= _LONGEST_RUN or (len(word) <= _LONGEST_SPELLED and not pronounceable(lower)):
        return spell(word)
    return lower if pronounceable(lower) or len(word) > 2 * _LONGEST_SPELLED else spell(word)


def emphasized(word: str) -> str:
    """Return the reading of a word in a line that is all capitals, where most words are ordinary ones."""
    lower = word.lower()
    if lower in SHORT_WORDS:
        return lower
    if word in CUSTOM:
        return CUSTOM[word]
    if word in LETTERS:
        return spell(word)
    if word in WORDS or word.capitalize() in FIRST_NAMES:
        return word.capitalize()
    return lower if pronounceable(lower) or len(word) > _LONGEST_SPELLED else spell(word)


def part(word: str) -> str:
    """Return the reading of a part of an address or identifier, in any case: "bbc", "docs", "txt", "id"."""
    if not word.isascii() or not word.isalpha():
        return word
    upper, lower = word.upper(), word.lower()
    if len(word) == 1:
        return upper
    if upper in CUSTOM:
        return CUSTOM[upper]
    if word.isupper():
        return acronym(word)
    if len(word) <= _LONGEST_RUN and "y" in lower and lower not in SHORT_WORDS and not re.search(r"[aeiou]", lower):
        return spell(word)
    if (upper in LETTERS and lower not in SHORT_WORDS and word not in NAMES) or not re.search(r"[aeiouy]", lower):
        return spell(word)
    return word


def is_word(text: str) -> bool:
    """Return whether capitals before digits are read as a word: COVID19, but not MP3."""
    return text in WORDS or (len(text) > _LONGEST_RUN and text not in LETTERS and pronounceable(text.lower()))
