"""Training and engine agree: they compute the same logits, and the engine reproduces memorized utterances."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.checkpoint.folder import open_checkpoint
from engine.models.code_predictor import CodePredictor
from engine.models.qwen3 import attend, causal_mask
from engine.models.talker import TalkerModel
from engine.models.weights import Weights
from engine.prompt.builder import build_prompt
from engine.protocol.request import FinishReason, SamplingParams, SpeechRequest, Voice
from scripts.train_pocket.assemble import assemble
from scripts.train_pocket.config import Layouts
from scripts.train_pocket.talker.batches import batches, collate
from scripts.train_pocket.talker.evaluate import evaluate
from scripts.train_pocket.talker.example_sampler import ExampleSampler
from scripts.train_pocket.talker.examples import build_example
from scripts.train_pocket.talker.feed import Share, feed, on_device
from scripts.train_pocket.talker.losses import score, with_noise
from scripts.train_pocket.talker.saving import check_names, resume, save
from tests.support.talkers import native_talker, prepare, speak
from tests.unit.train_pocket.small_pocket import new_trainer, small_pocket, stand_in_drawing

CPU = torch.device("cpu")
EOS = 512
STEPS = 110
GREEDY = SamplingParams(greedy=True, repetition_penalty=1.0, max_new_tokens=200)


@pytest.fixture(scope="module")
def pocket():
    return small_pocket()


@pytest.fixture(scope="module")
def drawing(pocket, tmp_path_factory):
    return stand_in_drawing(pocket, tmp_path_factory.mktemp("stand_in"), utterances=24)


def voice(drawing, *, in_context):
    """A clone of the speaker of an utterance; if ``in_context``, with that utterance as the reference."""
    reference = drawing.corpus.trained[3]
    _, vectors = drawing.corpus.vectors[reference.speaker]
    embedding = vectors[0] * np.float32(drawing.xvector_scale)
    if not in_context:
        return Voice(embedding)
    return Voice(embedding, reference.codes.astype(np.int64), reference.text)


def requests_of_each_layout(drawing):
    """One request of each layout."""
    text = "Badeki lomu napelo, ri so tu."
    clone, in_context = voice(drawing, in_context=False), voice(drawing, in_context=True)
    for layout in ("full", "streaming"):
        yield SpeechRequest(text, speaker="ava", language="english", text_layout=layout)
        yield SpeechRequest(text, voice=clone, text_layout=layout)
        yield SpeechRequest(text, voice=in_context, language="english", text_layout=layout)
    yield SpeechRequest("Ba.", voice=in_context, text_layout="streaming")


def assemble_and_open(trainer, drawing, pocket, folder):
    """Assemble the trainer's checkpoint and open it."""
    save(trainer, folder / "trained", 1.0)
    return assemble(
        pocket,
        folder / "checkpoint",
        tokenizer=None,
        talker=folder / "trained" / "talker.safetensors",
        speaker_encoder=None,
        codec=None,
    )


def engine_logits(checkpoint, request, frames):
    """The engine's logits of every frame and of the end for the given frames: codebook 0, and codebooks 1 to 15."""
    weights = Weights(checkpoint.tensors("talker."), CPU, torch.float32)
    talker = TalkerModel(weights, checkpoint.model.talker, positions=512)
    shape = checkpoint.model.talker
    predictor = CodePredictor(weights.under("code_predictor."), shape, code_tables=talker.code_tables, rows=len(frames))
    prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer)
    pads = [checkpoint.model.text_ids.tts_pad] * len(frames)
    text_beside_frames = (prompt.trailing + pads)[: len(frames)]
    codes = torch.from_numpy(frames.astype(np.int64))
    rows = torch.cat((talker.prompt_rows(prompt), talker.frame_rows(codes) + talker.text_rows(text_beside_frames)))
    mask = causal_mask(len(rows), 0, CPU, torch.float32)
    groups = shape.transformer.heads // shape.transformer.kv_heads

    def attention(_layer, query, key, value):
        key, value = (each.repeat_interleave(groups, 1).transpose(0, 1) for each in (key, value))
        return attend(query.transpose(0, 1), key, value, mask).transpose(0, 1).flatten(1)

    hidden = talker(rows, slice(0, len(rows)), attention)[len(prompt.text) - 1 :]
    books = []

    def draw(book, logits):
        books.append(logits)
        return codes[:, book]

    predictor(hidden[:-1], codes[:, 0], draw)
    return talker.logits(hidden), torch.stack(books)


def test_every_layout_has_the_logits_of_the_engine(pocket, drawing, tmp_path):
    trainer = new_trainer(pocket)
    assemble_and_open(trainer, drawing, pocket, tmp_path)
    resume_weights = tmp_path / "trained"
    (resume_weights / "state.pt").unlink()
    resume(trainer, resume_weights)
    checkpoint = open_checkpoint(str(tmp_path / "checkpoint"))
    frames = drawing.corpus.trained[0].codes[:16]
    eos = checkpoint.model.talker.ids.eos
    for request in requests_of_each_layout(drawing):
        example = build_example(request, frames, checkpoint.model, checkpoint.tokenizer)
        longer = replace(example, text=np.pad(example.text, (0, 9)), codes=np.pad(example.codes, ((0, 9), (0, 0))))
        batch = collate([example, longer], pocket.talker.model.hidden, EOS, np.random.default_rng(0))
        own = np.arange(len(example) - 1 - len(frames), len(example) - 1)
        rows = on_device(batch._replace(before_frames=own), CPU)
        scores = score(trainer.model.eval(), rows)
        positions = slice(own[0], len(example))
        first, books = engine_logits(checkpoint, request, frames)
        torch.testing.assert_close(scores.first[positions, :-1], first[:, : trainer.model.codes], atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(scores.first[positions, -1], first[:, eos], atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(scores.books, books, atol=2e-4, rtol=1e-4)
        assert scores.first_targets[positions].tolist() == [*frames[:, 0].tolist(), EOS]


def test_the_engine_reproduces_memorized_utterances(pocket, drawing, tmp_path):
    trainer = new_trainer(pocket)
    clone, in_context = voice(drawing, in_context=False), voice(drawing, in_context=True)
    first, second, third, fourth = (drawing.corpus.trained[number] for number in range(4, 8))
    memorized = [
        (SpeechRequest(first.text, speaker="ava", text_layout="full", sampling=GREEDY), first.codes),
        (SpeechRequest(second.text, speaker="emma", text_layout="streaming", sampling=GREEDY), second.codes),
        (SpeechRequest(third.text, voice=clone, text_layout="streaming", sampling=GREEDY), third.codes),
        (SpeechRequest(fourth.text, voice=in_context, text_layout="full", sampling=GREEDY), fourth.codes),
    ]
    examples = [build_example(request, codes, drawing.model, drawing.tokenizer) for request, codes in memorized]
    width, random = pocket.talker.model.hidden, np.random.default_rng(0)
    for step in range(STEPS):
        rows = on_device(collate(examples, width, EOS, random), CPU)
        trainer.step(rows, 6e-3 * min(1.0, (step + 1) / 10) * (1 - step / STEPS))
    report = evaluate(trainer.average, [rows])
    assert min(report.accuracies) == report.eos_precision == report.eos_recall == 1.0
    checkpoint = assemble_and_open(trainer, drawing, pocket, tmp_path)
    assert checkpoint.model.trained
    outputs = speak(native_talker(checkpoint), [prepare(request, checkpoint) for request, _ in memorized])
    for each, (_, codes) in zip(outputs, memorized, strict=True):
        assert np.array_equal(each.codes, codes)
        assert each.finish is FinishReason.STOP


def test_a_saved_run_resumes_where_it_stopped(pocket, drawing, tmp_path):
    rows = next(feed(drawing, 512, Share(0, 1), seed=3, workers=0, device=CPU))
    uninterrupted, interrupted = new_trainer(pocket), new_trainer(pocket)
    for _ in range(2):
        uninterrupted.step(rows, 1e-3)
    interrupted.step(rows, 1e-3)
    save(interrupted, tmp_path, 0.5)
    resumed = new_trainer(pocket)
    assert resume(resumed, tmp_path) == 0.5
    resumed.step(rows, 1e-3)
    assert resumed.steps == uninterrupted.steps
    for name, weight in uninterrupted.average.state_dict().items():
        torch.testing.assert_close(resumed.average.state_dict()[name], weight)


def test_a_run_can_resume_from_the_weights_alone(pocket, tmp_path):
    trainer, other = new_trainer(pocket), new_trainer(pocket)
    trainer.steps = 7
    save(trainer, tmp_path, 0.25)
    (tmp_path / "state.pt").unlink()
    assert resume(other, tmp_path) == 0.25
    assert other.steps == 7
    for name, weight in trainer.average.state_dict().items():
        torch.testing.assert_close(other.model.state_dict()[name], weight, atol=1e-2, rtol=1e-2)


def test_names_and_shapes_equal_those_of_the_checkpoint(pocket, drawing):
    check_names(new_trainer(pocket), drawing.model)


def test_padding_after_the_end_changes_nothing(pocket, drawing):
    model = new_trainer(pocket).model.eval()
    random = np.random.default_rng(0)
    examples = sorted((drawing.example(spoken, random) for spoken in drawing.corpus.trained[:6]), key=len)
    width = pocket.talker.model.hidden
    together = on_device(collate(examples, width, EOS, random), CPU)
    alone = on_device(collate(examples[:1], width, EOS, random), CPU)
    end = len(examples[0])
    hidden = model.hidden(together.text, together.codes, together.xvectors, together.xvector_rows)[0, :end]
    expected = model.hidden(alone.text, alone.codes, alone.xvectors, alone.xvector_rows)[0, :end]
    torch.testing.assert_close(hidden, expected, atol=1e-5, rtol=1e-5)


def test_batches_are_full_with_few_shapes_and_little_padding(pocket, drawing):
    random = np.random.default_rng(0)
    drawing = replace(drawing, shares=drawing.shares.model_copy(update={"joined": 0.4}))
    examples = [drawing.example(spoken, random) for spoken in drawing.corpus.trained * 40]
    result = list(batches(examples, 2048, pocket.talker.model.hidden, EOS, random))
    assert all(batch.text.shape == (2048 // batch.text.shape[1], batch.text.shape[1]) for batch in result)
    assert len({batch.before_frames.shape for batch in result}) <= len({batch.text.shape for batch in result})
    kept = sum(int((batch.text >= 0).any(1).sum()) for batch in result)
    assert kept > 0.8 * len(examples)
    used = sum(int(((batch.text >= 0) | (batch.codes >= 0).any(2)).sum()) for batch in result)
    assert used > 0.75 * sum(batch.text.size for batch in result)


def references(drawing, shares, count=60):
    """The examples of utterances with a reference, and the rows before their first target."""
    random = np.random.default_rng(1)
    drawing = replace(drawing, shares=drawing.shares.model_copy(update=shares))
    utterances = [each for each in drawing.corpus.trained for _ in range(count // len(drawing.corpus.trained) + 1)]
    return [(each, drawing.example(each, random)) for each in utterances]


def reference_frames(utterance, example):
    return int((example.codes[:, 1] >= 0).sum()) - len(utterance.codes)


IN_CONTEXT = {"layouts": Layouts(full=0.0, streaming=0.0, in_context=1.0)}


def test_references_have_many_lengths_within_the_limits(drawing):
    shares = IN_CONTEXT | {"reference_frames": (6, 60)}
    lengths = [reference_frames(*each) for each in references(drawing, shares)]
    assert max(lengths) <= 60
    assert len(set(lengths)) > 10
    assert max(lengths) > 2 * min(length for length in lengths if length)


def test_the_frames_of_a_degraded_reference_are_no_targets(drawing):
    other = {each.id: (each.codes + 1) % 512 for each in drawing.corpus.trained}
    noisy = replace(drawing, corpus=replace(drawing.corpus, degraded=other))
    for utterance, example in references(noisy, IN_CONTEXT | {"degraded": 1.0}):
        if reference_frames(utterance, example):
            assert len(example) - 1 - example.first == len(utterance.codes)
            assert np.array_equal(example.codes[example.first + 1 :], utterance.codes)


def test_joined_utterances_keep_the_phonemes_of_their_words(drawing, monkeypatch):
    first, second = (
        replace(drawing.corpus.trained[number], text=text, words=words, codes=drawing.corpus.trained[number].codes[:20])
        for number, text, words in ((0, "One bird sang.", "w1Vn b1Rrd s1aN"), (1, "Two cats.", "- k1ats"))
    )
    texts = []
    monkeypatch.setattr(ExampleSampler, "_another", lambda *_: second)
    monkeypatch.setattr(ExampleSampler, "_request", lambda _, text, *__: texts.append(text) or (None, True))
    monkeypatch.setattr("scripts.train_pocket.talker.example_sampler.build_example", lambda *_, **__: None)
    shares = drawing.shares.model_copy(update={"joined": 1.0, "phonemes": 1.0, "target_frames": 40})
    sampler = replace(drawing, shares=shares)
    random = np.random.default_rng(1)
    for _ in range(40):
        sampler.example(first, random)
    words = {word for text in texts for word in text.split()}
    assert words == {"One", "{w1Vn", "bird", "{b1Rrd", "sang.", "{s1aN.", "Two", "cats.", "{k1ats."}


def test_each_process_reads_its_own_share(drawing):
    first, second = (next(feed(drawing, 4096, Share(rank, 2), seed=3, workers=1, device=CPU)).codes for rank in (0, 1))
    assert first.shape != second.shape or not torch.equal(first, second)


def test_noise_replaces_codes_by_those_of_other_frames_and_keeps_tags(drawing):
    random = np.random.default_rng(0)
    example = drawing.example(drawing.corpus.trained[0], random)
    codes = torch.from_numpy(example.codes)[None].long()
    noisy = with_noise(codes, 0.5)
    tags = codes[..., -1] < 0
    assert torch.equal(noisy[tags], codes[tags])
    changed = (noisy != codes)[~tags].float().mean()
    assert 0.1 < changed < 0.5
    for book in range(16):
        assert set(noisy[..., book].flatten().tolist()) <= set(codes[..., book].flatten().tolist())
