"""Colloquial contractions that a checkpoint misreads, as words: d'you, c'mon, might've, Dad'll, what're, cup o' tea."""

from __future__ import annotations

from server.text.english.rules import Rule, rule

_WILL = r"""
    \b(?!(?i:I|you|ya|he|she|it|we|they|that|this|there|here|who|what|which|how|where|when|why|these|those)')
    ([A-Za-z]{2,30})'ll\b
"""
_ARE = r"\b(?!(?i:you|ya|we|they)')([A-Za-z]{2,30})'re\b"
_DID = r"\b((?i:why|where|what|when))'d(?=[ ](?:I|you|he|she|it|we|they)\b)"

FIRST: tuple[Rule, ...] = (
    rule(r"(?<![\w'])([Dd])'(?=(?:you|ya|we|they)\b)", r"\1o ", ("d'", "D'")),
    rule(r"(?<![\w'])([Cc])'mon\b", r"\1ome on", "'mon"),
    rule(r"(?<![\w'])([Ss])'pose(?=d?\b)", r"\1uppose", "'pose"),
    rule(r"(?<=\b[Mm]ight)'ve\b", " have", "'ve"),
    rule(_WILL, r"\1 will", "'ll"),
    rule(_ARE, r"\1 are", "'re"),
    rule(_DID, r"\1 did", "'d "),
    rule(r"(?<=[A-Za-z][ ])o'(?=[ ](?!clock\b)[A-Za-z])", "of", " o' "),
)
