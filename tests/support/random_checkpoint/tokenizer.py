"""Trains a byte-level BPE of a few hundred tokens and writes the three tokenizer files of a published folder."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from engine.prompt.tokenizer import SPLIT_PATTERN
from tests.support.random_checkpoint.files import write_json

_VOCAB_SIZE = 640
_LARGE_VOCAB_SIZE = 8192
_CORPUS = (
    "assistant",
    "user",
    "system",
    "assistant\n",
    "user\n",
    "Hello world, this is a test of the speech server.",
    "She said she would be here by noon. The quick brown fox jumps over the lazy dog.",
    "Speak with a calm and warm voice, please. Very happy. Very angry.",
    "I am solving the equation; nobody can, it's a disaster, very sad!",
    "one two three four five six seven eight nine ten 0123456789",
    "其实我真的有发现，我是一个特别善于观察别人情绪的人。",
    "哥哥，你回来啦，人家等了你好久好久了，要抱抱！",
    "こんにちは、世界。 안녕하세요 세계. Guten Tag. Bonjour tout le monde. Привет, мир. Hola, mundo.",
)
_CHAT = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_TOOLS = (
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
_SPEECH = (
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
)


def write_tokenizer(folder: Path, words_of: Sequence[str] = ()) -> dict[str, int]:
    """Write vocab.json, merges.txt and tokenizer_config.json. Returns the id of every token.

    words_of: texts whose words should each become one token, as for nearly all words in a published vocabulary.
    """
    vocab, merges = _train(words_of)
    vocab_text = json.dumps(vocab, ensure_ascii=False)
    merges_text = "#version: 0.2\n" + "\n".join(merges) + "\n"
    (folder / "vocab.json").write_text(vocab_text, encoding="utf-8", newline="\n")
    (folder / "merges.txt").write_text(merges_text, encoding="utf-8", newline="\n")
    added = {token: len(vocab) + i for i, token in enumerate(_CHAT + _TOOLS + _SPEECH)}
    write_json(folder / "tokenizer_config.json", tokenizer_config(added, [*_CHAT[1:], *_SPEECH], ordinary=_TOOLS))
    return vocab | added


def _train(words_of: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=_LARGE_VOCAB_SIZE if words_of else _VOCAB_SIZE,
        min_frequency=1,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator((*_CORPUS, *words_of) * 2, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]


def tokenizer_config(
    added: Mapping[str, int], additional: Sequence[str], *, ordinary: Collection[str] = ()
) -> dict[str, object]:
    """Return tokenizer_config.json as published. added: tokens besides the BPE's, special unless in ``ordinary``."""
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {str(i): _added_token(token, token not in ordinary) for token, i in added.items()},
        "additional_special_tokens": list(additional),
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "processor_class": "Qwen3TTSProcessor",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


def _added_token(token: str, special: bool) -> dict[str, object]:
    return {
        "content": token,
        "lstrip": False,
        "normalized": False,
        "rstrip": False,
        "single_word": False,
        "special": special,
    }
