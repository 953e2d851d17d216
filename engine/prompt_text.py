"""The text side of a prompt: which strings are tokenised, and how they are cut (SPEC 3)."""

from __future__ import annotations

from dataclasses import dataclass

from engine.architecture import ModelArchitecture, TextIds
from engine.errors import RequestError
from engine.request import SpeechRequest
from engine.text_tokenizer import TextTokenizer

_ROLE = 3
"""Tokens of "<|im_start|>assistant\\n"."""
_TURN_END = 2
"""Tokens of "<|im_end|>\\n"."""
_FOLLOWS_NONE = frozenset({"0b6", "pocket"})
"""Sizes (tts_model_size) whose custom voices were trained without instructions."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """Token ids. role: the turn's opening; instruction: a whole user turn, empty without one.

    reference: the transcript of the voice to clone, empty but for in-context cloning.
    text is never empty. read: tokens of the caller's own texts, the templates left out.
    """

    role: list[int]
    text: list[int]
    instruction: list[int]
    reference: list[int]
    read: int


def tokenize_prompt(request: SpeechRequest, model: ModelArchitecture, tokenizer: TextTokenizer) -> PromptText:
    """Tokenise a request's texts. Raises RequestError for a text that is blank or has no UTF-8 form."""
    if not request.text.strip():
        raise RequestError("input has nothing to say", param="input")
    ids = model.text_ids
    turn = _turn("assistant", request.text, "input", ids, tokenizer)
    role, text = turn[:_ROLE], turn[_ROLE:-_TURN_END]
    if not text:
        raise RequestError("input has nothing to say", param="input")
    instruction = _instruction(request, model, tokenizer)
    reference = _reference(request, ids, tokenizer)
    own_instruction = len(instruction[_ROLE:-_TURN_END])
    return PromptText(role, text, instruction, reference, len(text) + own_instruction + len(reference))


def _instruction(request: SpeechRequest, model: ModelArchitecture, tokenizer: TextTokenizer) -> list[int]:
    """Empty where the model was not trained to follow one: clones and the smaller models' custom voices."""
    untrained_for = request.voice is not None or (request.speaker is not None and model.size in _FOLLOWS_NONE)
    if not request.instructions or untrained_for:
        return []
    return _turn("user", request.instructions, "instructions", model.text_ids, tokenizer)


def _reference(request: SpeechRequest, ids: TextIds, tokenizer: TextTokenizer) -> list[int]:
    if request.voice is None or request.voice.codes is None:
        return []
    transcript = request.voice.transcript
    if transcript is None or not transcript.strip():
        raise RequestError("in-context cloning needs the transcript of the reference", param="ref_text")
    return _turn("assistant", transcript, "ref_text", ids, tokenizer)[_ROLE:-_TURN_END]


def _turn(role: str, text: str, param: str, ids: TextIds, tokenizer: TextTokenizer) -> list[int]:
    r"""The ids of "<|im_start|>{role}\n{text}<|im_end|>\n".

    Role and text are one string, because a text's leading line breaks may merge with the template's;
    the role is then cut off by count, as when the model was trained.
    """
    return [ids.im_start, *tokenizer.encode(f"{role}\n{text}", param), ids.im_end, *tokenizer.encode("\n")]
