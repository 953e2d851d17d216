"""What is asked for when no file says otherwise: everyday sentences of 48 to 89 characters."""

from __future__ import annotations

from pathlib import Path

SENTENCES = (
    "The train to the coast leaves at nine, so we should be at the station by half past eight.",
    "She opened the window and listened to the rain on the roof.",
    "Please remember to bring the blue folder to the meeting tomorrow morning.",
    "A small bakery on the corner sells the best bread in town.",
    "The committee will publish its report before the end of the month.",
    "He walked along the river until the lights of the city disappeared.",
    "Your order has been shipped and should arrive within three working days.",
    "We measured the temperature twice, and both readings were the same.",
    "The museum is closed on Mondays, but the garden stays open all week.",
    "If you need more time, just send me a message before noon.",
    "The old bridge was built from stone that came from the next valley.",
    "I have never seen a sky as clear as the one above the desert.",
    "Turn left after the library and you will see the entrance on your right.",
    "The children planted two trees behind the school last spring.",
    "Most of the noise came from the engine, not from the wind.",
    "Thank you for calling, how can I help you today?",
    "The first chapter explains why the experiment failed so often.",
    "They agreed to meet again when the results were ready.",
    "Coffee tastes better when the water is not quite boiling.",
    "The pilot told us that we would land a few minutes early.",
)


def read_texts(path: Path) -> tuple[str, ...]:
    """The lines of a file that say something, each a text. Raises OSError, or ValueError where there is none."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not a text in UTF-8") from None
    texts = tuple(line.strip() for line in lines if line.strip())
    if not texts:
        raise ValueError(f"{path}: no text in it")
    return texts
