"""Prompts are tested by their rows: ids and the embeddings they stand for."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from engine.prompt.builder import NO_TOKEN, build_prompt, languages, tasks, tokenize_prompt
from engine.prompt.tokenizer import SPECIAL_TOKENS, SPLIT_PATTERN
from engine.protocol.request import SpeechRequest
from tests.parity.golden_cases import TALKER_CASES, load, request_of
from tests.unit.prompt_requests import FIVE_FRAMES, prompt_of, voice
from tests.unit.prompt_rows import embed_prompt, project_text


@pytest.mark.parametrize("name", TALKER_CASES)
def test_tokens_match_the_reference_implementation(opened, name):
    golden = load(name)
    checkpoint = opened[golden["meta"]["variant"]]
    text = tokenize_prompt(request_of(golden), checkpoint.model, checkpoint.tokenizer)
    assert text.role + text.text == golden["input_ids"][:-5].tolist()
    assert text.instruction == golden.get("instruct_ids", np.array([], int)).tolist()
    assert text.reference == golden.get("ref_ids", np.array([], int))[3:-2].tolist()


@pytest.mark.parametrize("name", TALKER_CASES)
def test_rows_match_the_reference_implementation(opened, name):
    golden = load(name)
    checkpoint = opened[golden["meta"]["variant"]]
    prompt = build_prompt(request_of(golden), checkpoint.model, checkpoint.tokenizer)
    trailing = prompt.trailing or [checkpoint.model.text_ids.tts_pad]
    np.testing.assert_allclose(embed_prompt(prompt, checkpoint), golden["prefill_embeds"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(project_text(trailing, checkpoint), golden["trailing"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("task", "layout"), [("clone", "streaming"), ("speaker", "full")])
def test_the_default_layout_is_that_of_the_reference_implementation(opened, task, layout):
    fields = {"voice": voice()} if task == "clone" else {"speaker": "ryan"}
    default = prompt_of(opened["pocket"], text="Hello world.", **fields)
    explicit = prompt_of(opened["pocket"], text="Hello world.", text_layout=layout, **fields)
    assert default.text.tolist() == explicit.text.tolist()
    assert default.trailing == explicit.trailing


def test_in_streaming_layout_the_rest_of_the_text_is_trailing(opened):
    pocket = opened["pocket"]
    prompt = prompt_of(pocket, text="Hello world.", speaker="ryan", text_layout="streaming")
    first, *rest = pocket.tokenizer.encode("Hello world.")
    assert prompt.text[-1] == first
    assert prompt.trailing == [*rest, pocket.model.text_ids.tts_eos]


def test_in_context_text_longer_than_the_reference_is_trailing(opened):
    checkpoint = opened["0b6-base"]
    reference = voice(codes=FIVE_FRAMES, transcript="one two three")
    prompt = prompt_of(checkpoint, text="Hello world, this is a test.", voice=reference)
    encode, eos = checkpoint.tokenizer.encode, checkpoint.model.text_ids.tts_eos
    spoken = [*encode("one two three"), *encode("Hello world, this is a test."), eos]
    assert len(spoken) > 6
    assert prompt.text[-6:].tolist() == spoken[:6]
    assert prompt.codec[-6:].tolist() == [checkpoint.model.talker.ids.bos, *[NO_TOKEN] * 5]
    assert prompt.codes_row == len(prompt.text) - 5
    assert prompt.trailing == spoken[6:]


def test_in_context_text_as_long_as_the_reference_leaves_nothing_trailing(opened):
    checkpoint = opened["0b6-base"]
    spoken = len(checkpoint.tokenizer.encode("one")) + len(checkpoint.tokenizer.encode("two")) + 1
    frames = np.zeros((spoken - 1, 16), np.int64)
    prompt = prompt_of(checkpoint, text="two", voice=voice(codes=frames, transcript="one"))
    assert prompt.text[-1] == checkpoint.model.text_ids.tts_eos
    assert prompt.trailing == []


def test_a_checkpoint_may_support_cloning_and_speakers(opened):
    pocket = opened["pocket"]
    named = prompt_of(pocket, text="Hello", speaker="ryan")
    cloned = prompt_of(pocket, text="Hello", voice=voice())
    assert named.embedding is None
    assert pocket.model.talker.speakers["ryan"] in named.codec
    assert cloned.embedding is not None
    assert cloned.codec[cloned.embedding_row] == NO_TOKEN


def test_tasks_follow_from_the_checkpoint(opened):
    assert {variant: tasks(checkpoint.model) for variant, checkpoint in opened.items()} == {
        "0b6-base": ["Base"],
        "0b6-custom_voice": ["CustomVoice"],
        "1b7-base": ["Base"],
        "1b7-custom_voice": ["CustomVoice"],
        "1b7-voice_design": ["VoiceDesign"],
        "pocket": ["CustomVoice", "Base"],
    }


def test_dialects_are_not_selectable_languages(opened):
    offered = languages(opened["pocket"].model)
    assert "english" in offered
    assert not [name for name in offered if "dialect" in name]


@pytest.mark.parametrize(
    ("speaker", "language", "expected"),
    [
        ("eric", "Chinese", "sichuan_dialect"),
        ("DYLAN", "auto", "beijing_dialect"),
        ("eric", "English", "english"),
        ("ryan", "chinese", "chinese"),
        ("ryan", "Auto", None),
    ],
)
def test_the_dialect_of_a_speaker_replaces_chinese_and_auto(opened, speaker, language, expected):
    talker = opened["pocket"].model.talker
    prompt = prompt_of(opened["pocket"], text="Hello", speaker=speaker, language=language)
    opening = talker.ids.nothink if expected is None else talker.ids.think
    assert opening in prompt.codec
    named = {name for name, codec_id in talker.languages.items() if codec_id in prompt.codec}
    assert named == ({expected} if expected else set())


@pytest.mark.parametrize(
    ("variant", "fields", "followed"),
    [
        ("1b7-custom_voice", {"speaker": "ryan"}, True),
        ("1b7-voice_design", {}, True),
        ("0b6-custom_voice", {"speaker": "ryan"}, False),
        ("pocket", {"speaker": "ryan"}, False),
        ("1b7-base", {"voice": voice(128)}, False),
    ],
)
def test_instructions_are_used_only_by_models_trained_on_them(opened, variant, fields, followed):
    plain = prompt_of(opened[variant], text="Hello", **fields)
    instructed = prompt_of(opened[variant], text="Hello", instructions="Very happy.", **fields)
    assert (len(instructed.text) > len(plain.text)) == followed
    assert (instructed.input_tokens > plain.input_tokens) == followed


def test_input_tokens_count_only_text_and_instructions(opened):
    checkpoint = opened["1b7-custom_voice"]
    prompt = prompt_of(checkpoint, text="Hello world.", speaker="ryan", instructions="Very happy.")
    encode = checkpoint.tokenizer.encode
    assert prompt.input_tokens == len(encode("Hello world.")) + len(encode("Very happy."))


@pytest.mark.parametrize("special", SPECIAL_TOKENS.values())
def test_special_tokens_in_user_text_stay_plain_text(opened, special):
    design, base = opened["1b7-voice_design"], opened["1b7-base"]

    def count(prompt, checkpoint):
        ids = checkpoint.model.text_ids
        return [
            np.count_nonzero(np.append(prompt.text, prompt.trailing) == getattr(ids, name)) for name in SPECIAL_TOKENS
        ]

    plain = prompt_of(design, text="one", instructions="one")
    spoken = prompt_of(design, text=f"one{special}", instructions=f"{special} one")
    assert count(spoken, design) == count(plain, design)
    frames = np.zeros((1, 16), np.int64)
    plain = prompt_of(base, text="one", voice=voice(128, frames, "one"))
    spoken = prompt_of(base, text=special, voice=voice(128, frames, f"one{special}"))
    assert count(spoken, base) == count(plain, base)


@pytest.fixture(scope="module")
def whole_template(opened) -> Tokenizer:
    """Tokenizes like the reference implementation: the complete template with its special tokens."""
    folder = opened["pocket"].folder
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    # Added tokens are numbered from the end of the vocabulary: this order gives them the ids of the checkpoint.
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return tokenizer


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="<"), min_size=1))
@settings(max_examples=200)
def test_role_and_text_equal_slices_of_the_tokenized_template(opened, whole_template, text):
    pocket = opened["pocket"]
    templated = f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n"
    whole = whole_template.encode(templated).ids
    assume(text.strip() and whole[3:-5])
    cut = tokenize_prompt(SpeechRequest(text=text, speaker="ryan"), pocket.model, pocket.tokenizer)
    assert cut.role == whole[:3]
    assert cut.text == whole[3:-5]


@pytest.mark.parametrize("text", ["\nHello", "\n\n\nHello", "  \n Hello\n", "\r\nHello"])
def test_leading_line_breaks_merge_with_the_template_as_in_training(opened, whole_template, text):
    pocket = opened["pocket"]
    whole = whole_template.encode(f"<|im_start|>assistant\n{text}<|im_end|>\n").ids
    cut = tokenize_prompt(SpeechRequest(text=text, speaker="ryan"), pocket.model, pocket.tokenizer)
    assert cut.role + cut.text == whole[:-2]


def test_speaker_names_are_case_insensitive(opened):
    checkpoint = opened["pocket"]
    talker = replace(checkpoint.model.talker, speakers={"MyVoice": 7})
    model = replace(checkpoint.model, talker=talker)
    prompt = build_prompt(SpeechRequest(text="Hello", speaker="myVOICE"), model, checkpoint.tokenizer)
    assert 7 in prompt.codec
