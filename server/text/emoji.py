"""Emoji and emoticons: dropped, or named on request."""

from __future__ import annotations

import re
import unicodedata

from server.text.english.numbers import cardinal
from server.text.patterns import lazy

_SKIN_TONES = "\U0001f3fb-\U0001f3ff"
_PICTURES = (
    "\u203c\u2049\u2139\u231a-\u231b\u2328\u23cf\u23e9-\u23fa\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe"
    "\u2600-\u266c\u2670-\u27bf\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f16c-\U0001f171\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a"
    "\U0001f201-\U0001f265\U0001f300-\U0001faff"
)
_ARROWS = "\u27f0-\u27ff\u2794\u279c\u2192"
"""Arrows that other rules read as words, although Unicode lists them among the pictures."""
_FLAG = "[\U0001f1e6-\U0001f1ff]{1,2}"
_ONE = rf"(?:{_FLAG}|(?![{_ARROWS}])[{_PICTURES}]\ufe0f?[{_SKIN_TONES}]?|[\u00a9\u00ae\u2122\u2194-\u21aa\u24c2]\ufe0f)"
_SEQUENCE = lazy(rf"{_ONE}(?:\u200d{_ONE}){{0,8}}(?:[\U000e0020-\U000e007f]{{1,8}})?\u20e3?")
_KEYCAP = lazy(r"([0-9#*])\ufe0f?\u20e3")
_RATING = lazy(
    r"(?<![\d.])(\d(?:\.\d)?)[ ]?[★⭐]\ufe0f?(?![★⭐☆])"
    r"(?P<noun>(?= (?:service|hotel|review|rating|experience|meal|place|product|food|app|restaurant|seller|stay)s?\b))?"
)
_STARS = lazy(
    r"(?<![★☆⭐\ufe0f]) (?P<full>(?:[★⭐]\ufe0f?){1,10})(?P<half>[½⯨✬⯪])?(?P<empty>☆{1,9})?"
    r"(?![★☆⭐])(?P<end>[ ](?=[A-Z]))?",
    re.VERBOSE,
)
"""A rating: ★★★★☆."""
_FEWEST_STARS, _MOST_STARS = 3, 5
_NEAR = 60
"""Characters within which another group of stars shows that they are decoration."""
_LOVE = lazy(
    r"(?:\b(?P<subject>I|[Ww]e|[Tt]hey)|^(?P<you>[Yy]ou|[Uu]))[ ](?:(?:♥|❤)\ufe0f?|<3+)"
    r"(?=[ ](?!(?:and|or|then|is)\b)[A-Za-z])"
    r"|\b(?P<low>i)[ ]<3+(?=[ ](?:u|ur|you|your|this|that|my|it|him|her|them|the)\b)"
)
"""I ♥ NY, I <3 you."""
_LOVE_FIRST = lazy(r"^<3+(?= (?:u|ur|you|your|this|that|my|it|him|her|them|the)\b)", re.MULTILINE)
"""<3 you mom."""
_SELECTORS = lazy(r"[\ufe0e\ufe0f\u20e3]|(?<![^\W\d_])\u200d|\u200d(?![^\W\d_])")
_EMOTICON = lazy(
    r"""
    (?<![^\s.,!?])(?:
        [:;][-'o^]?[)(\]\[DPpOo3|/\\*$]{1,4}    # :-) ;P :(
      | =[-'^]?(?:[)(DPp]{1,4}|[\]\[O/\\|*](?=[.!?]*\s*(?:$|\n)))  # =D
      | 8-[)(]{1,4}                              # 8-), but "8D" is a seat and "83" a number
      | [xX]D+ | [:;]'[-]?[()]                    # xD :'(
      | \^[_.-]?\^ | -_+- | [oO][_.][oO] | >[_.]< | T[_.]T | ¯\\?_?\(ツ\)_?/¯ | \\o/ | <\\?/3
      | [(]+[-]?[:;=](?!\w)
    )(?=$|[\s.,!?])
    """,
    re.VERBOSE,
)
_FACE = lazy(
    r"""
    (?<!\w) [ヽ\\ノ╯ლづっ┌ʕ(]{0,2}
    \( (?=[^()\n]{0,14}[ಠಥ◕◔ʘ⊙╥ツ益皿‿▽□ᴗ◡✿]|\^[oO_.]\^)
        (?:[^()\w\s]|[ಠಥ益ωдДツシッ口皿ヮノºoOTvwx_]){2,14} \)
    [ﾉノ丿づっ╯ლʔ彡ヽ/)\\]{0,3} (?:[ ]?[︵彡]{0,2}[ ]?┻━┻)? (?!\w)
  | (?<!\w) (?P<eye>[ಠಥ◕◔ʘ◉●⊙╥]) [_‿ω益︵∀.﹏ヮ]{1,3} (?P=eye) (?!\w)
    """,
    re.VERBOSE,
)
"""Faces of several characters: ಠ_ಠ, ヽ(^o^)丿, (╯°□°)╯."""
_NOT_COUNTED = "thanks|us|this|yes|always|hugs|kisses|guys|was|has|does|its|lots|xs"
_COMPARED = rf"and|or|then|is|km|people|(?!(?:{_NOT_COUNTED})\b)[a-z]{{2,20}}s"
"""Words after which "<3" is no heart: "<3 dollars"."""
_HEART = lazy(
    rf"(?<=[^\W\d]|[.!?,])(?:\s{{1,4}}<3+){{1,9}}(?=$|[\s.,!?])(?!\s*[=<>](?!3)|\s(?:{_COMPARED})\b)"
    r"|^(?:<3+\s{0,4}){1,9}(?=$|[.,!?])"
)
"""A heart: "miss you <3". "<3 miles" is a comparison."""
_SHORT_NAMES = (
    "100 angry bell blush bomb boom bow bug bulb cake clap coffee confused cool crown cry dizzy eyes facepalm "
    "fire fist flushed frowning gem ghost grin grinning handshake heart hearts hourglass hugging joy kiss "
    "laughing lol mega memo moneybag pensive pizza poop pray rainbow relaxed relieved rocket rofl rose scream "
    "shrug skull sleeping smile smiley smirk snowflake sob sparkles star sunglasses sunny sweat tada thinking "
    "thumbsdown thumbsup trophy unlock wave wink worried wrench yum zap zzz"
).split()
_SHORTCODE = lazy(
    rf":(?<![\w:/].)((?:{'|'.join(_SHORT_NAMES)})|[+-]1|[a-z0-9]{{1,20}}(?:_[a-z0-9]{{1,20}}){{1,5}}):(?![\w:/])"
)
"""An emoji by its name, as in chat programs: ":tada:", ":thumbs_up:"."""
_VARIABLE = lazy(r"(?:^|[\s(=])(?![IUu]$)[^\W\d_]$")
_SPACES = lazy(r"[^\S\n]{2,}")
_NAMES = {
    "❤": "heart",
    "☺": "smiling face",
    "👍": "thumbs up",
    "👎": "thumbs down",
    "😂": "face with tears of joy",
    "✅": "check mark",
    "❌": "cross mark",
    "⭐": "star",
    "🎉": "party popper",
    "🙏": "folded hands",
    "💯": "one hundred points",
}


def drop(text: str) -> str:
    """Return ``text`` without emoji and emoticons. The digit of a keycap emoji is kept."""
    return _replace(text, named=False)


def name(text: str) -> str:
    """Return ``text`` with emoji named in English: "party popper". Emoticons are dropped."""
    return _replace(text, named=True)


def in_english(text: str) -> str:
    """Return ``text`` with the words that signs stand for in English: "I ♥ NY", "★★★★☆"."""
    if any(heart in text for heart in ("<3", "♥", "❤")):
        text = _LOVE.sub(lambda match: f"{match['subject'] or match['you'] or match['low']} love", text)
        text = _LOVE_FIRST.sub("love", text)
    if "★" in text or "⭐" in text:
        text = _RATING.sub(
            lambda match: f"{match[1]} star" + ("s" if match[1] != "1" and match["noun"] is None else ""), text
        )
        text = _STARS.sub(_stars, text)
    return text


def _replace(text: str, *, named: bool) -> str:
    changed = _SHORTCODE.sub(lambda match: f" {re.sub('[_-]', ' ', match[1])} " if named else " ", text)
    if not text.isascii():
        changed = _KEYCAP.sub(lambda match: match[1] if match[1].isdecimal() else " ", changed)
        changed = _SEQUENCE.sub(lambda match: f" {sequence_name(match[0])} " if named else " ", changed)
        changed = _SELECTORS.sub("", changed)
    changed = _EMOTICON.sub("", changed)
    if not changed.isascii():
        changed = _FACE.sub("", changed)
    if "<3" in changed:
        changed = _HEART.sub(_heart, changed)
    if changed == text:
        return text
    changed = _SPACES.sub(" ", changed)
    return re.sub(r"[^\S\n]+(?=[.,!?](?!\w)|$|\n)", "", changed)


def _stars(match: re.Match[str]) -> str:
    """Return a rating in words. A few stars without empty ones, and more than one group of them, are decoration."""
    full, empty = len(match["full"].replace("\ufe0f", "")), len(match["empty"] or "")
    around = match.string[max(0, match.start() - _NEAR) : match.end() + _NEAR]
    alone = around.count("★") + around.count("⭐") == full
    if not (match["half"] or empty or ((alone or "☆" in around) and _FEWEST_STARS <= full <= _MOST_STARS)):
        return match[0]
    half = " and a half" if match["half"] else ""
    of = f" out of {cardinal(full + empty + bool(half))}" if empty else ""
    stars = "star" if full + empty == 1 else "stars"
    return f"{cardinal(full)}{half}{of} {stars}{'. ' if match['end'] else ''}"


def _heart(match: re.Match[str]) -> str:
    """Return nothing for a heart, and "<3" itself where it compares a variable: "x <3"."""
    before = match.string[max(0, match.start() - 3) : match.start()]
    return match[0] if _VARIABLE.search(before) else ""


def sequence_name(sequence: str) -> str:
    """Return the English name of an emoji: its Unicode name. A family or a profession has the names of its parts."""
    parts = []
    flag = ""
    for character in sequence:
        if "\U0001f1e6" <= character <= "\U0001f1ff":
            flag += chr(ord(character) - 0x1F1E6 + ord("A"))
        elif character in _NAMES:
            parts.append(_NAMES[character])
        elif unicodedata.category(character) in ("So", "Sm", "Po") and not "\U0001f3fb" <= character <= "\U0001f3ff":
            found = unicodedata.name(character, "").lower().replace("-", " ")
            parts.append(re.sub(r"^(?:black|white|heavy) (?=\w+ \w+)|\bsign$|\bsymbol$", "", found).strip())
    if flag:
        parts.append(f"flag {' '.join(flag)}")
    return " ".join(filter(None, parts))
