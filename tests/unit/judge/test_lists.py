"""Lists of recordings, and the clips and utterances of the exam."""

from scripts.judge.clips import read_clips
from scripts.judge.exam import MAIN_VOICES, QUICK, Size, exam
from scripts.judge.recordings import Recording, read_list, write_list
from scripts.judge.sound import read


def test_a_list_is_read_back_as_written(tmp_path):
    recordings = [
        Recording(tmp_path / "a.wav", 'She said "no".', tmp_path / "ref.wav"),
        Recording(tmp_path / "b.wav", "Hello there."),
    ]
    write_list(tmp_path / "list.tsv", recordings)
    assert read_list(tmp_path / "list.tsv") == recordings


def test_paths_are_relative_to_the_list(tmp_path):
    (tmp_path / "list.tsv").write_text("a.wav\tHello.\n")
    assert read_list(tmp_path / "list.tsv") == [Recording(tmp_path / "a.wav", "Hello.")]


def test_every_clip_of_the_repository_is_readable():
    clips = read_clips()
    assert set(MAIN_VOICES) <= set(clips.named)
    assert len({clip.speaker for clip in clips.unseen}) == Size().clones
    for clip in clips.all():
        samples, rate = read(clip.file)
        assert rate == 24_000
        assert 2 < len(samples) / rate < 8


def test_each_seed_gives_a_sentence_another_voice():
    planned = exam(["One.", "Two."], read_clips(), Size(sentences=2, seeds=3, clones=1, clone_sentences=1))
    voices = {(each.text, each.speaker) for each in planned.main}
    assert len(planned.main) == len(voices) == 6


def test_every_utterance_has_a_unique_name():
    planned = exam([f"Sentence {number}." for number in range(30)], read_clips(), QUICK)
    utterances = [*planned.main, *planned.further, *planned.by_vector, *planned.in_context]
    assert len({each.name for each in utterances}) == len(utterances)
