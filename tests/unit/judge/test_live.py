"""Live text that is judged by ear; see also tests/server/test_judged_live_text.py."""

from scripts.judge.live import Answer, LiveText, live_texts, report

SPOKEN = Answer(b"", 0.2, None)


def row(text, *heard):
    counts = {"words": 4, "ending_lost": False}
    recognized = {
        name: {"heard": each, "errors": int(each != text), **counts}
        for name, each in zip(("moonshine", "whisper"), heard, strict=True)
    }
    return {"text": text, **recognized}


def test_every_text_is_spoken_once_for_each_seed_in_alternating_voices():
    texts = list(live_texts(2))
    typed = [text.typed for text in texts if text.kind == "replies"]
    assert len(typed) == 2 * len(set(typed))
    assert {text.kind for text in texts} == {"replies", "sentences"}
    assert len({text.voice for text in texts[:4]}) == 4
    assert {text.voice for text in texts if text.typed == typed[0]} != {texts[0].voice}


def test_the_report_counts_wrong_words_and_names_failed_sessions_and_what_both_recognizers_misheard():
    texts = [LiveText("replies", typed, "emma", 1) for typed in ("Two eggs.", "Turn left.", "Try it.", "No.")]
    answers = [SPOKEN, Answer(b"", None, "no_speech"), SPOKEN, SPOKEN]
    rows = [row("Two eggs.", "To eggs.", "Two egg."), row("Try it.", "Try it.", "Try."), row("No.", "No.", "No.")]
    assert report(texts, answers, rows).splitlines() == [
        "kind        texts  errors  WER, moonshine    WER, whisper",
        "replies         4       1           8.3 %          16.7 %",
        "error no_speech: 'Turn left.'",
        "emma: 'Two eggs.' heard as 'To eggs.' and 'Two egg.'",
    ]
