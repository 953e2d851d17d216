"""Qwen2's byte-level BPE tokenizer, loaded from vocab.json and merges.txt (SPEC 1.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unicodedata import combining, normalize

from pydantic import StrictStr, TypeAdapter
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from engine.checkpoint.architecture import TextIds
from engine.checkpoint.checksums import Checksums, unverified
from engine.checkpoint.json_file import parse, read_json
from engine.errors import CheckpointError, RequestError
from engine.prompt.lexicon import read_lexicon

SPLIT_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Qwen2's split pattern, with which the checkpoints were trained. Loading a local folder through transformers can
replace it with Mistral's pattern."""

SPECIAL_TOKENS = {
    "im_start": "<|im_start|>",
    "im_end": "<|im_end|>",
    "tts_pad": "<tts_pad>",
    "tts_bos": "<tts_text_bos>",
    "tts_eos": "<tts_text_eod>",
}
"""The token in tokenizer_config.json for each field of ``TextIds``."""


class TextTokenizer:
    """Converts text to token ids. It has no special tokens, so no text can be tokenized as one."""

    def __init__(self, folder: Path, checksums: Checksums | None = None) -> None:
        """Read vocab.json and merges.txt of ``folder``, verified against ``checksums`` if given.

        Raises CheckpointError with the file.
        """
        checksums = checksums or unverified(folder)
        vocab, merges = folder / "vocab.json", folder / "merges.txt"
        ids, pairs = read_json(vocab, checksums), _parse_merges(checksums.read(merges), merges)
        try:
            model = models.BPE(ids, pairs)
        except Exception as error:  # the library raises no specific type
            raise CheckpointError(f"{vocab} and {merges.name} must be a byte-level BPE vocabulary: {error}") from error
        self._lexicon = read_lexicon(folder, checksums)
        self._tokenizer = Tokenizer(model)
        self._pre_tokenizer = pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated", invert=False)
        self._tokenizer.normalizer = normalizers.NFC()
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated", invert=False),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        self.vocab: dict[str, int] = self._tokenizer.get_vocab()
        missing = set(pre_tokenizers.ByteLevel.alphabet()) - self.vocab.keys()
        if missing:
            raise CheckpointError(
                f"{vocab} must have a token for each byte, but those of {len(missing)} of the 256 bytes are missing"
            )
        self.line_break: list[int] = self._tokenizer.encode("\n", add_special_tokens=False).ids
        """The token ids of a line break."""
        self._encoded: dict[str, list[int]] = {}

    def stable_length(self, text: str) -> int:
        """Return how many leading characters of ``text``, in NFC, have the same tokens whatever text follows.

        The last word is never included. If the text ends with words of combining marks only, neither these nor the word
        before them is included, because further marks could reorder them.
        """
        word_starts = [start for _, (start, _) in self._pre_tokenizer.pre_tokenize_str(text)]
        while word_starts and all(map(combining, text[word_starts[-1] :])):
            word_starts.pop()
        return word_starts[-1] if word_starts else 0

    def _parts(self, text: str) -> Iterator[str]:
        """Yield the parts that are tokenized separately."""
        return (part for part, _ in self._pre_tokenizer.pre_tokenize_str(text))

    def encode(self, text: str, param: str = "input", before: str = "") -> list[int]:
        """Return the token ids of ``text``, in which phonemes replace the words of the checkpoint's lexicon.

        before: the end of the text before it, which has been tokenized.

        Raises RequestError, with the request field ``param``, if the text contains an unpaired surrogate.
        """
        if not before and (encoded := self._encoded.get(text)) is not None:
            return list(encoded)
        surrogate = _unpaired_surrogate(text)
        if surrogate is not None:
            raise RequestError(
                f"{param} must not contain unpaired surrogates, got one at character {surrogate}", param=param
            )
        ids: list[int] = self._tokenizer.encode(self._spelled(text, before), add_special_tokens=False).ids
        return ids

    def encode_ahead(self, texts: Iterable[str]) -> None:
        """Tokenize texts for the next calls of ``encode``. Forgets those of the last call. Skips unpaired surrogates.

        All are tokenized in one call of the library. Each call releases the interpreter, for which other threads wait.
        """
        self._encoded = {}
        valid = [text for text in texts if _unpaired_surrogate(text) is None]
        spelled = [self._spelled(text) for text in valid]
        encodings = self._tokenizer.encode_batch_fast(spelled, add_special_tokens=False)
        self._encoded = {text: encoding.ids for text, encoding in zip(valid, encodings, strict=True)}

    def _spelled(self, text: str, before: str = "") -> str:
        return text if self._lexicon is None else self._lexicon(self._parts(normalize("NFC", text)), before)


def _unpaired_surrogate(text: str) -> int | None:
    """Return the position of the first unpaired surrogate, None if there is none."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def _parse_merges(data: bytes, file: Path) -> list[tuple[str, str]]:
    """Return the pairs of a merges.txt: two tokens per line, in the order of their merge priority."""
    try:
        lines = data.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise CheckpointError(f"{file} must be UTF-8 text") from None
    pairs = []
    for number, line in enumerate(lines, 1):
        if line.startswith("#version"):
            continue
        tokens = line.split(" ")
        if len(tokens) != 2:
            raise CheckpointError(f"{file}, line {number}: must be two tokens separated by a space, found {line!r:.80}")
        pairs.append((tokens[0], tokens[1]))
    return pairs


def check_text_ids(
    folder: Path, tokenizer: TextTokenizer, ids: TextIds, text_vocab: int, checksums: Checksums | None = None
) -> None:
    """Raise CheckpointError if the vocabulary, the ids in config.json and tokenizer_config.json are inconsistent."""
    largest = max(tokenizer.vocab.values())
    if largest >= text_vocab:
        raise CheckpointError(
            f"{folder / 'vocab.json'}: ids must be less than the text_vocab_size of config.json, {text_vocab}, "
            f"found {largest}"
        )
    for name in ("assistant", "user"):
        if len(tokenizer.encode(f"{name}\n")) != 2:
            raise CheckpointError(f"{folder / 'vocab.json'} has no token {name!r}, which every prompt needs")
    _check_special_tokens(folder, tokenizer, ids, checksums or unverified(folder))


def _check_special_tokens(folder: Path, tokenizer: TextTokenizer, ids: TextIds, checksums: Checksums) -> None:
    added = _added_tokens(folder, checksums)
    ordinary = {token_id: token for token, token_id in tokenizer.vocab.items()}
    for name, token in SPECIAL_TOKENS.items():
        token_id: int = getattr(ids, name)
        context = f"config.json gives {name}_token_id as {token_id}"
        if ordinary.get(token_id, token) != token:
            raise CheckpointError(
                f"{folder / 'vocab.json'}: {context}, which is the ordinary token {ordinary[token_id]!r}, not {token!r}"
            )
        if added is not None and added.get(token_id) != token:
            actual = "missing" if token_id not in added else repr(added[token_id])
            raise CheckpointError(
                f"{folder / 'tokenizer_config.json'}: {context}; it must be {token!r}, found {actual}"
            )


@dataclass
class _AddedToken:
    content: StrictStr


@dataclass
class _TokenizerConfig:
    added_tokens_decoder: dict[str, _AddedToken] | None = None


_TOKENIZER_CONFIG = TypeAdapter(_TokenizerConfig)


def _added_tokens(folder: Path, checksums: Checksums) -> dict[int, str] | None:
    """Return id -> token from tokenizer_config.json, or None if the file or its list does not exist."""
    file = folder / "tokenizer_config.json"
    if not file.exists() and not checksums.lists(file):
        return None
    tokens = parse(_TOKENIZER_CONFIG, read_json(file, checksums), file).added_tokens_decoder
    return None if tokens is None else {int(key): token.content for key, token in tokens.items() if key.isdecimal()}
