"""Letters of chats as words: r u, c u at 7, will b there, y r u mad, np, thx sm, my gf (24F)."""

from __future__ import annotations

import re

from server.text.english import chat_digits, numbers
from server.text.english.rules import Rule, beside, rule
from server.text.patterns import lazy

_AGE = r"(?P<age>[1-9]\d)(?<![\w.,$€£]..)[ ]?(?P<gender>[MFmf])(?![\w'-])"
"""The age and gender of a person, as in forums: I (25M), my gf (24F), I'm 25M."""
_PERSON = (
    "I|me|us|we|he|she|him|her|you|wife|husband|spouse|partner|boyfriend|girlfriend|bf|gf|fianc[eé]e?|friend|roommate|"
    "mom|mum|mother|dad|father|brother|sister|son|daughter|cousin|aunt|uncle|boss|coworker|colleague|ex|guy|girl|man|woman"
)
_PERSON_BEFORE = lazy(rf"(?<!\w)(?:{_PERSON}|my|his|our|their|the) ?[(\[]$", re.IGNORECASE)
_IS_BEFORE = lazy(rf"(?<!\w)(?:I'?m|I am|she's|he's|(?:{_PERSON}) is) (?:an? )?$", re.IGNORECASE)
_END_OF_AGE = lazy(r"\s*(?:$|[.,;!?)])|[ ](?:and|with|from|in|living|but|who|here|looking)\b")
_NO_PROBLEM = r"""
    (?<![\w.'-]) (?: (?<=^) | (?<=[.!?,][ ]) | (?<=\b[Yy]eah[ ]) | (?<=\b[Ss]ure[ ]) )
    [Nn]p (?= [,!;:)] | [.]?\s*$ | [.][ ] | [ ](?:at[ ]all|man|bro|dude|mate|m8|lol|haha)\b )
"""
"""np, see you there. Elsewhere it is a name in programs."""
_SO_MUCH = r"(?P<before>\b(?i:thx|thanks|ily|ty|(?:love|miss|hate)[ ](?:u|you|him|her|it|this))[ ])sm(?![\w.]\w|\w)"
"""thx sm!!"""


_SEE_YOU = r"(?<![\w.])(?P<see>[Cc])[ ](?P<you>u|ya)(?![\w.'/]|[ ][a-z]\b)"
"""c u tmrw."""
_VARIABLE = r"[ ](?:is|was|and|denotes|equals|represents|stands|refers|ranges|varies|changes|depends)\b"
"""What follows the variable r: "where r is the radius"."""
_ARE = rf"""
    \b (?P<before>(?i:you|we|they|ppl|people|these|those|what|where|how|why|who|y|u|yall|y'all|guys|things)[ ](?:2[ ])?)
    r (?=[ ][a-z2]|[?!.]*$) (?! (?: (?<=\b(?i:where)[ ]r) | (?<=\b(?i:what)[ ]r) | (?<=\b(?i:how)[ ]r) ) {_VARIABLE})
  | (?:(?<=^)|(?<=[.?!,][ ])) (?P<r>[Rr]) (?=[ ](?:we|they|you|u|these|those|yall|the|my)[ ])
"""
"""ppl r waiting, where r you."""
_WHY = r"""
    (?: (?<=^) | (?<=[.?!,][ ]) | (?<=\bbut[ ]) | (?<=\band[ ]) | (?<=\bidk[ ]) )
    (?P<y>[Yy]) (?= [ ](?:r|u|you)\b | [ ](?:are|is|do|did|would|cant|wont)[ ](?:u|you|he|she|it|they|we|this)\b )
"""
"""y r u mad."""
_REASON = r"(?P<before>\b(?i:idk|know|knows|wonder|that'?s)[ ])y(?=[ ](?:but|tho|lol|tbh)\b|[.!?]|\s*$)"
"""idk y."""
_FOR_REAL = (
    r"(?<=^)fr(?=[ ](?:fr|tho|though)\b)|(?<=[a-z][ ])fr(?=[ ]fr\b|[ ](?:tho|though)\b|[.!?]*$)|(?<=\bfr[ ])fr(?!\w)"
)
_TONE = r"(?<=[\w.!?][ ])/(?:s|j|srs|hj|lh|gen)(?=[.!]*\s*$)"
"""A mark of how a text is meant, at its end: "so fun /s"."""
_NO_TONE = lazy(
    r"(?:\b(?:dir|del|rd|rmdir|copy|xcopy|robocopy|shutdown|format|attrib|reg)|\d ?\w{1,4}) $", re.IGNORECASE
)
"""A command or a unit before "/s"."""
_DRAWN_OUT = r"(?<![\w'])(?=[A-Za-z]{0,10}?([A-Za-z])\1\1)[A-Za-z]{3,24}(?![\w'])"
"""soooo, looove."""
_RUN = lazy(r"(.)\1+")
_PLAIN = {
    each: each
    for each in (
        "so no go way yes please love cute nice wait what why hi hey bye very sure fun day me you stop help mom dad "
        "yeah thanks right amazing best same big hot nah yay wow ah oh aw ugh omg"
    ).split()
} | {
    "sory": "sorry",
    "realy": "really",
    "god": "good",
    "to": "too",
    "col": "cool",
    "son": "soon",
    "lok": "look",
    "fre": "free",
    "swet": "sweet",
    "hapy": "happy",
}
"""A word with every run of a letter as one letter -> the word."""
_SIGNED = r"(?:(?<=[a-z]{3}[ ])|(?<=[,.!?)][ ]))[-—](?=[A-Z]\.?\s*$)"
"""The initial of who writes, at the end: "thanks! -J"."""
_OPTION_BEFORE = lazy(r"\b(?:option|flag|switch|run|use|with|pass|tar|curl|git|ssh|grep|sudo|pip|npm|java|gcc|make)\b")
_SEE_YOU_SOON = r"""
    (?<![\w.])(?<!dot[ ]) (?P<see>[Cc])u
    (?=[ ](?:l8r|later|soon|then|there|at|in|on|tmrw|tomorrow|tonight|2nite|2moro|2mrw|2morrow|again)\b)
"""
_HOMEWORK = r"""
    (?P<before> \b(?i:my|our|ur|your|math|do|did|doing|any|no)[ ]
      | (?<!\w)(?=hw[ ](?:again|due|help|tonight|answers|assignment)\b) ) hw (?!\w)
"""
"""hw due tmrw."""
_AND = r"""
    \b (?P<before>(?:me|u|you|him|her|us|mom|dad|pros|rock|mac|drum|fish|surf|burgers?|salt|peace|b/f|bf|come|go|try
      |nice|here|now|up|out|chips|wine|dine|cut|pick)[ ]) n (?=[ ][a-z])
"""
"""me n u, mac n cheese."""
_MORNING = (
    r"^(?P<good>[Gg])m(?=[!,.]|[ ](?:coffee|friends|team|folks|chat|y'all|to[ ]all|all|everyone|u|love|babe|guys"
    r"|fam|bb)\b|\s*$)"
)
_NOT_MUCH = r"(?:(?<=^)|(?<=[.?!,][ ]))(?P<n>[Nn])m(?=[ ](?:u|you|just|hbu|wbu)\b|[,.?!]|\s*$)"
"""wyd? nm u?"""
_BE = r"""
    (?P<before> \b(?:will|to|gonna|imma|ima|(?<=')ll|can|must|should|might|wont|dont|cant|lets|pls|plz|please|just)[ ]
      | (?<=[,.!?][ ]) | (?<=^)(?=b[ ](?:safe|careful|good|nice|there|back|ready)\b) ) b
    (?= [ ](?:there|here|back|at|in|on|the|a|ok|okay|fun|late|l8|home|gone|good|great|nice|ready|sure|able|my|ur|so|mad
      |sad|safe|careful)\b )
"""
"""will b there."""
_WITH = r"(?<=[a-z][ ])w(?=[ ](?:my|dat|the|a|an|me|u|you|him|her|us|them|his|your|ur|this|that|these|our|some)\b)"
"""stay w me."""
_YOU_ARE = r"""
    (?<![\w.']) (?P<you>[Uu])r (?=[ ](?: the[ ](?:best|worst|one|only|man|greatest|cutest|sweetest|bomb)
      |so|not|welcome|an?|my|such|always|just|really|gonna|going|too|right|wrong|amazing|awesome|late|funny|cute|crazy|ready|busy|lucky
      |being|making|doing|getting|coming|kidding|invited|looking|supposed|free|the[ ]goat|killing|driving
      |on[ ](?:your|ur) )\b)
"""
"""ur so funny. Before a noun, "ur" is "your"."""
_YOU_ARE_THERE = r"""
    (?P<before>\b(?i:when|if|once|since|because|bc|know|think|hope|glad|til|till|while)[ ]) ur
    (?= [ ](?:home|here|there|back|done|up|out|in|at|on|ok|okay|ready|busy|tired|good|fine|sick|mad|sad|single)\b )
"""


def _age(match: re.Match[str]) -> str:
    text, start, end = match.string, match.start(), match.end()
    before = _PERSON_BEFORE if text[end : end + 1] in (")", "]") else _IS_BEFORE
    is_age = before.search(text, max(0, start - 16), start)
    if before is _IS_BEFORE and not (match["gender"].isupper() and match[0][2] != " " and _END_OF_AGE.match(text, end)):
        is_age = None
    return f"{numbers.cardinal(int(match['age']))} {match['gender'].upper()}" if is_age else match[0]


def _are(match: re.Match[str]) -> str:
    return f"{match['before'] or ''}{'Are' if match['r'] == 'R' else 'are'}"


def _plain(match: re.Match[str]) -> str:
    word = _PLAIN.get(_RUN.sub(r"\1", match[0].lower()))
    if word is None or ("oo" in word and "ooo" not in match[0].lower()):
        return match[0]
    return word.capitalize() if match[0][0].isupper() else word


def _signed(match: re.Match[str]) -> str:
    return match[0] if _OPTION_BEFORE.search(match.string) else ""


def _tone(match: re.Match[str]) -> str:
    return match[0] if _NO_TONE.search(match.string, max(0, match.start() - 12), match.start()) else ""


FIRST: tuple[Rule, ...] = (rule(_TONE, _tone, " /"), rule(_SIGNED, _signed, (" -", " —")))
"""Run before paths."""

RULES: tuple[Rule, ...] = (
    *chat_digits.RULES,
    rule(_DRAWN_OUT, _plain, "letter thrice"),
    rule(_AGE, _age, beside("", "MFmf")),
    rule(_NO_PROBLEM, lambda match: "No problem" if match[0][0] == "N" else "no problem", ("np",)),
    rule(_SO_MUCH, r"\g<before>so much", ("sm",)),
    rule(_SEE_YOU, lambda match: f"{'See' if match['see'] == 'C' else 'see'} you", "lone letter"),
    rule(_ARE, _are, "lone letter"),
    rule(_WHY, lambda match: "Why" if match["y"] == "Y" else "why", "lone letter"),
    rule(_AND, r"\g<before>and", " n "),
    rule(r"(?<=[.,!][ ])tia(?=[!.]*\s*$)", "thanks in advance", ("tia",)),
    rule(_MORNING, r"\g<good>ood morning", ("gm",)),
    rule(r"(?P<before>\b(?i:im|i'm|is|are|all|its|v|so|very|r|was)[ ])gd(?![\w.]\w|\w)", r"\g<before>good", ("gd",)),
    rule(_HOMEWORK, r"\g<before>homework", ("hw",)),
    rule(_REASON, r"\g<before>why", "lone letter"),
    rule(_YOU_ARE_THERE, r"\g<before>you're", ("ur",)),
    rule(_FOR_REAL, "for real", ("fr",)),
    rule(_SEE_YOU_SOON, lambda match: f"{'See' if match['see'] == 'C' else 'see'} you", ("cu",)),
    rule(_NOT_MUCH, lambda match: f"{'N' if match['n'] == 'N' else 'n'}ot much", ("nm",)),
    rule(r"(?<=[a-z][ ])pm(?=[ ](?:me|him|her|us|them|you|u)\b)", "P M", ("pm",)),
    rule(_BE, r"\g<before>be", "lone letter"),
    rule(_WITH, "with", "lone letter"),
    rule(_YOU_ARE, lambda match: "You're" if match["you"] == "U" else "you're", ("ur",)),
    rule(r"(?<!\w)r[ ]u(?!\w)", "are you", "r u"),
)
"""Run before numbers are put into words."""
