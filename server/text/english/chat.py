"""Spellings of chats with digits and single letters as words: works 4 me, coming 2 choir, r u, c u at 7."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_TO = r"""
    \b (?: (?P<before>(?:coming|going|wanna|nice)[ ])
            2(?=[ ](?!\w+s\b|people\b|kids\b|more\b|or\b|of\b|men\b|women\b)[a-z])
          | (?P<modal>(?:have|need|got|wants?|used|what|how|where|when|go|back|talk)[ ])
            2(?=[ ](?:go|be|do|see|get|tell|find|finish|come|meet|call|talk|send|say|eat|wear|make|buy|know|sleep|work
              |leave|stay|play|watch|bed|school|church|u|you)\b) )
"""
_FOR = r"""
    (?<=[a-z][ ])4(?=[ ](?:me|u|rent|sale|free)\b) | (?<=\d[ ])4(?=[ ](?:me|u)\b)
"""
_FOR_THEM = r"""
    \b (?P<before> (?:works|good|great|time|ready|waiting|looking|best|fine|bad|up|money|asking)[ ] )
    4 (?=[ ](?:you|us|the|it|that|this|now|him|her|them)\b)
  | (?P<thanks>\b(?i:thx|thanks|ty|tks)[ ]) 4 (?=[ ])
"""
_CHAT_SOMEWHERE = lazy(r"(?<!\w)(?:u|ur|pls|plz|thx|tbh|idk|2nite|2day|tmrw|rn|gonna)(?!\w)")
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
    [Nn]p (?= [,!;:)] | [.]?\s*$ | [ ](?:at[ ]all|man)\b )
"""
"""np, see you there. Elsewhere it is a name in programs."""
_SO_MUCH = r"(?P<before>\b(?i:thx|thanks|ily|ty|(?:love|miss|hate)[ ](?:u|you|him|her|it|this))[ ])sm(?![\w.]\w|\w)"
"""thx sm!!"""


_SEE_YOU = r"(?<![\w.])(?P<see>[Cc])[ ](?P<you>u|ya|you)(?![\w.'/]|[ ][a-z]\b)"
"""c u tmrw."""
_ARE = r"\b(?P<before>(?i:you|we|they|ppl|people|these|those|what|where|how|why|who|y|u)[ ])r(?=[ ][a-z]|[?!.]*$)"
"""ppl r waiting, where r you."""
_WHY = r"""
    (?: (?<=^) | (?<=[.?!,][ ]) | (?<=\bbut[ ]) | (?<=\band[ ]) | (?<=\bidk[ ]) )
    (?P<y>[Yy]) (?= [ ](?:r|u|you)\b | [ ](?:are|is|do|did|would|cant|wont)[ ](?:u|you|he|she|it|they|we|this)\b )
"""
"""y r u mad."""
_FOR_REAL = r"(?<=[a-z][ ])fr(?=[ ]fr\b|[ ](?:tho|though)\b|[.!?]*$)|(?<=\bfr[ ])fr(?!\w)"
_SEE_YOU_SOON = (
    r"(?<!\w)(?P<see>[Cc])u(?=[ ](?:l8r|later|soon|then|there|at|in|on|tmrw|tomorrow|tonight|2nite|again)\b)"
)
_NOT_MUCH = r"(?:(?<=^)|(?<=[.?!,][ ]))(?P<n>[Nn])m(?=[ ](?:u|you|just|hbu|wbu)\b|[,.?!]|\s*$)"
"""wyd? nm u?"""
_BE = r"""
    \b(?P<before>(?:will|to|gonna|(?<=')ll|can|must|should|might|wont)[ ])b
    (?=[ ](?:there|here|back|at|in|on|the|a|ok|okay|fun|late|home|gone|good|great|nice|ready|sure|able|my|ur|so)\b)
"""
"""will b there."""
_WITH = r"(?<=[a-z][ ])w(?=[ ](?:my|the|a|an|me|u|you|him|her|us|them|his|your|ur|this|that|these|our|some)\b)"
"""stay w me."""
_YOU_ARE = r"""
    (?<![\w.']) (?P<you>[Uu])r (?=[ ](?: the[ ](?:best|worst|one|only|man|greatest|cutest|sweetest|bomb)
      |so|not|welcome|an?|my|such|always|just|really|gonna|going|too|right|wrong|amazing|awesome|late|funny|cute|crazy
      |being|making|doing|getting|coming|kidding|invited|looking|supposed|on[ ](?:your|ur) )\b)
"""
"""ur so funny. Before a noun, "ur" is "your"."""


def _age(match: re.Match[str]) -> str:
    text, start, end = match.string, match.start(), match.end()
    before = _PERSON_BEFORE if text[end : end + 1] in (")", "]") else _IS_BEFORE
    is_age = before.search(text, max(0, start - 16), start)
    if before is _IS_BEFORE and not (match["gender"].isupper() and match[0][2] != " " and _END_OF_AGE.match(text, end)):
        is_age = None
    return f"{numbers.cardinal(int(match['age']))} {match['gender'].upper()}" if is_age else match[0]


def _to(match: re.Match[str]) -> str:
    before = match["before"] or match["modal"]
    return f"{before}to" if _CHAT_SOMEWHERE.search(match.string) else match[0]


RULES: tuple[Rule, ...] = (
    rule(_TO, _to, "2"),
    rule(_FOR, "for", "4"),
    rule(_AGE, _age, ("digit letter", "digit h")),
    rule(_NO_PROBLEM, lambda match: "No problem" if match[0][0] == "N" else "no problem", ("np",)),
    rule(_SO_MUCH, r"\g<before>so much", ("sm",)),
    rule(_FOR_THEM, lambda match: f"{match['before'] or match['thanks']}for", "4"),
    rule(r"(?<=\b[Mm]e[ ])2(?=[.!?]*$)", "too", "2"),
    rule(_SEE_YOU, lambda match: f"{'See' if match['see'] == 'C' else 'see'} you", ("c", "C")),
    rule(_ARE, r"\g<before>are", "r"),
    rule(_WHY, lambda match: "Why" if match["y"] == "Y" else "why", ("y", "Y")),
    rule(_FOR_REAL, "for real", ("fr",)),
    rule(_SEE_YOU_SOON, lambda match: f"{'See' if match['see'] == 'C' else 'see'} you", ("cu",)),
    rule(_NOT_MUCH, lambda match: f"{'N' if match['n'] == 'N' else 'n'}ot much", ("nm",)),
    rule(r"(?<=[a-z][ ])pm(?=[ ](?:me|him|her|us|them|you|u)\b)", "P M", ("pm",)),
    rule(_BE, r"\g<before>be", "b"),
    rule(_WITH, "with", "w"),
    rule(_YOU_ARE, lambda match: "You're" if match["you"] == "U" else "you're", ("ur",)),
    rule(r"(?<!\w)r[ ]u(?!\w)", "are you", "r u"),
)
"""Run before numbers are put into words."""
