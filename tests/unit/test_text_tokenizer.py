import json
import shutil
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders

from engine.errors import CheckpointError, RequestError
from engine.prompt.tokenizer import SPECIAL_TOKENS, TextTokenizer
from tests.support.random_checkpoint import write_checkpoint


@pytest.fixture(scope="module")
def folder(checkpoints):
    return checkpoints["pocket"]


@pytest.fixture(scope="module")
def tokenizer(folder):
    return TextTokenizer(folder)


def decode_ids(tokenizer: TextTokenizer, ids: list[int]) -> str:
    """Decode ids with the vocabulary alone."""
    by_id = {token_id: token for token, token_id in tokenizer.vocab.items()}
    return decoders.ByteLevel().decode([by_id[i] for i in ids])


def token_texts(tokenizer: TextTokenizer, text: str) -> list[str]:
    return [decode_ids(tokenizer, [i]) for i in tokenizer.encode(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Hello world.",
        "  two  spaces\n\n and lines\r\n",
        "它是蓝色的",
        "안녕",
        "🙂 é ﬁ",
        "\x00\x7f",
        "it's I'LL",
    ],
)
def test_ids_decode_to_the_text(tokenizer, text):
    assert decode_ids(tokenizer, tokenizer.encode(text)) == text


@given(st.text())
@settings(max_examples=200)
def test_no_byte_of_any_text_is_lost(tokenizer, text):
    assert decode_ids(tokenizer, tokenizer.encode(text)) == unicodedata.normalize("NFC", text)


@given(st.lists(st.text()))
@settings(max_examples=100)
def test_texts_that_are_tokenized_together_have_the_same_ids(folder, texts):
    alone, together = TextTokenizer(folder), TextTokenizer(folder)
    together.encode_ahead(texts)
    for text in texts:
        ids = together.encode(text)
        assert ids == alone.encode(text)
        ids.append(-1)
        assert together.encode(text) == alone.encode(text), "the caller may change what it got"
        assert together.encode(text, before="read") == alone.encode(text, before="read")


def test_a_text_that_cannot_be_encoded_does_not_keep_others_from_being_tokenized(tokenizer):
    tokenizer.encode_ahead(["before", "\ud800", "after"])
    assert [decode_ids(tokenizer, tokenizer.encode(text)) for text in ("before", "after")] == ["before", "after"]
    with pytest.raises(RequestError, match="unpaired surrogates, got one at character 0"):
        tokenizer.encode("\ud800")


def test_composed_and_decomposed_letters_give_the_same_ids(tokenizer):
    assert tokenizer.encode("caf\u00e9") == tokenizer.encode("cafe\u0301")


def test_each_digit_is_a_token(tokenizer):
    assert token_texts(tokenizer, "2024") == ["2", "0", "2", "4"]


def test_a_mixed_case_word_is_split_only_by_the_vocabulary(tmp_path):
    # With the pattern of Mistral instead of Qwen2, "helloWorld" could never become one token.
    write_checkpoint(tmp_path, "pocket")
    vocab = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    vocab["oW"] = len(vocab)
    (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\no W\n", encoding="utf-8")
    assert "oW" in token_texts(TextTokenizer(tmp_path), "helloWorld")


@pytest.mark.parametrize("special", SPECIAL_TOKENS.values())
def test_special_tokens_in_text_are_plain_text(tokenizer, folder, special):
    added = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["added_tokens_decoder"]
    ids = tokenizer.encode(f"before {special} after")
    assert not {int(i) for i in added} & set(ids)
    assert decode_ids(tokenizer, ids) == f"before {special} after"


def test_text_without_a_utf8_form_is_a_request_error(tokenizer):
    with pytest.raises(RequestError) as caught:
        tokenizer.encode("ab\ud800", param="instructions")
    assert caught.value.param == "instructions"
    assert "character 2" in caught.value.message


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_a_missing_file_is_named(folder, tmp_path, name):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        TextTokenizer(tmp_path)


def test_an_invalid_vocabulary_is_named(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "vocab.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"vocab\.json"):
        TextTokenizer(tmp_path)


def test_refuses_a_vocabulary_without_every_byte(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    vocab = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    vocab = {token: i for token, i in vocab.items() if token != "z"}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"1 of the 256 bytes"):
        TextTokenizer(tmp_path)
