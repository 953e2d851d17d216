"""The digits 2 and 4 as words of chats: works 4 me, coming 2 choir, dont b l8 2 class, ur 2 funny, love u 2."""

from __future__ import annotations

import re

from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_VERBS = (
    "ask|be|bring|buy|c|call|check|clean|come|cook|dance|do|drink|drive|eat|fight|find|finish|fix|forget|get|give|go|hang|have|hear"
    "|help|join|keep|know|learn|leave|let|listen|live|lose|make|meet|miss|move|party|pay|pick|play|put|read|run|say|see|send|show"
    "|sing|sit|sleep|start|stay|stop|study|swim|take|talk|tell|text|think|travel|try|turn|use|visit|wait|walk|watch|wear|work|write"
)
_PLACES = "bed|church|class|home|school|sleep|town|work"
_PERSONS = "me|u|you|him|her|them|us"
_OWNERS = "my|ur|your|his|our|the|that|this|it|a"
_TO = rf"""
    \b (?: (?P<before>(?:coming|going|wanna|nice)[ ])
            2(?=[ ](?!\w+s\b|people\b|kids\b|more\b|or\b|of\b|men\b|women\b)[a-z])
          | (?P<modal>(?:have|need|got|wants?|used|what|how|where|when|go|back|talk)[ ])
            2(?=[ ](?:{_VERBS}|bed|school|church|u|you)\b) )
"""
_FOR = r"""
    (?<=[a-z][ ])4(?=[ ](?:me|u|rent|sale|free)\b) | (?<=\d[ ])4(?=[ ](?:me|u)\b)
"""
_FOR_THEM = r"""
    \b (?P<before> (?:works|good|great|time|ready|wait|waiting|excited|hyped|stoked|looking|best|fine|bad|up|money
      |asking)[ ] )
    4 (?=[ ](?:you|us|the|it|that|this|now|him|her|them)\b)
  | (?P<thanks>\b(?i:thx|thanks|ty|tks)[ ]) 4 (?=[ ])
"""
CHAT_SOMEWHERE = lazy(
    r"(?<!\w)(?:u|ur|pls|plz|thx|tbh|idk|2nite|2day|tmrw|rn|gonna|wanna|omg|lol|lmao|ily|bff|b4|l8|l8r|gr8|m8|ppl|im|dont|cant|wont"
    r"|yall|btw|abt|r|b|ngl|tho)(?!\w)"
)
"""What shows that a text is a chat."""
_NUMBER_BEFORE = (
    "about|all|and|around|at|before|by|chapter|day|episode|first|for|from|grade|in|is|just|last|level|like|next|no|number|of|only"
    "|or|page|part|past|phase|room|round|season|step|than|the|these|those|til|till|to|top|until|unit|version|week|with|year"
)
"""Words before a number."""
_CHAT_TO = (
    rf"\b(?P<before>(?!(?:{_NUMBER_BEFORE})[ ])[a-z][a-z\d']*[ ])2(?=[ ](?:{_VERBS}|{_PLACES}|{_PERSONS}|{_OWNERS})\b)"
)
_PLUS_ONE_FOR = r"(?<=\+1[ ])4(?=[ ](?:the|my|ur|a|this|that)\b)"
_CHAT_FOR = rf"""
    \b (?P<before>(?!(?:{_NUMBER_BEFORE})[ ])[a-z][a-z\d']*[ ]) 4
    (?= [ ](?: {_PERSONS}|{_OWNERS}|life|real|sure|now|once|dinner|lunch|breakfast|class|work|school|xmas|christmas
          |everything|everyone|ever|mon|tues?|wed|thurs?|fri|sat|sun|tmrw|tonight|tomorrow|2nite|free|good )\b )
"""
_ADJECTIVES = (
    "bad|big|busy|cold|cool|cute|early|easy|expensive|far|fast|fresh|funny|good|hard|hot|kind|late|legit|long|loud|many|much|nice"
    "|old|real|sick|slow|small|soon|sweet|tired|young"
)
_TOO = rf"""
    \b (?P<before>(?i:r|are|is|was|were|im|i'm|ur|your|youre|you're|way|its|it's|thats|be|b)[ ]) 2
    (?= [ ](?:{_ADJECTIVES})\b )
  | \b (?P<person>(?i:me|u|you|him|her|them|us)[ ]) 2
    (?=[.!?]+[ ]|,(?<=[uU][ ]2,)[ ]|[.!?]*(?:$|[ ]<3|[ ](?:lol|haha|xx?|bae|babe|mom|dad|bro|sis|baby|bb|hun)\b))
"""


def _to(match: re.Match[str]) -> str:
    before = match["before"] or match["modal"]
    return f"{before}to" if CHAT_SOMEWHERE.search(match.string) else match[0]


def _in_chat(word: str, match: re.Match[str]) -> str:
    """Return ``word`` instead of the digit in a text that is a chat."""
    return f"{match['before']}{word}" if CHAT_SOMEWHERE.search(match.string) else match[0]


def _too(match: re.Match[str]) -> str:
    me = (match["person"] or "").lower() == "me "
    before = match["before"] or match["person"]
    return f"{before}too" if me or CHAT_SOMEWHERE.search(match.string) else match[0]


_TOO_FOR = rf"""
    (?<![\w.]) 2[ ](?P<much>{_ADJECTIVES})[ ](?:4|for)
    (?=[ ](?:me|u|you|us|him|her|them|words|this|that|my|it|school|tv)\b)
"""
"""2 cute 4 words."""

RULES: tuple[Rule, ...] = (
    rule(r"^2(?=[ ]be[ ](?:honest|fair|sure|clear)\b)", "to", "lone digit"),
    rule(_PLUS_ONE_FOR, "for", "+1 4"),
    rule(_TOO_FOR, r"too \g<much> for", "lone digit"),
    rule(_TOO, _too, "lone digit 2"),
    rule(_TO, _to, "lone digit"),
    rule(_FOR, "for", "lone digit"),
    rule(_FOR_THEM, lambda match: f"{match['before'] or match['thanks']}for", "lone digit"),
    rule(_CHAT_TO, lambda match: _in_chat("to", match), "lone digit"),
    rule(_CHAT_FOR, lambda match: _in_chat("for", match), "lone digit"),
)
"""Run before numbers are put into words, and before the letters that show a chat."""
