"""The trained tokenizer is accepted by the engine."""

import pytest

from engine.prompt.tokenizer import TextTokenizer, check_text_ids
from scripts.train_pocket import tokenizer
from scripts.train_pocket.config import load
from scripts.train_pocket.folder import SPECIAL_TOKENS, model_architecture

TEXTS = ["The lights went out, didn't they?", "The lighthouse keeper went home at 7 o'clock."] * 3


def test_the_engine_loads_it_with_the_ids_of_the_checkpoint(tmp_path):
    size = 300
    tokenizer.write(tmp_path, *tokenizer.train(TEXTS, size))
    pocket = load()
    pocket = pocket.model_copy(update={"texts": pocket.texts.model_copy(update={"vocabulary": size})})
    loaded = TextTokenizer(tmp_path)
    check_text_ids(tmp_path, loaded, model_architecture(pocket).text_ids, size + len(SPECIAL_TOKENS))
    assert len(loaded.vocab) == size
    assert len(loaded.encode("assistant\n")) == 2
    assert len(loaded.encode("The lights went")) < len("The lights went")


def test_refuses_too_few_texts_for_the_vocabulary():
    with pytest.raises(ValueError, match="expected 5000"):
        tokenizer.train(TEXTS, 5000)
