"""Which of two spellings a recording is closer to: ``python -m scripts.judge.preferences LIST.tsv``.

Each line of the list is WAV, RIGHT and WRONG, separated by tabs. Prints the log-likelihood ratio by Moonshine for each.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

from scripts.judge.moonshine import Moonshine
from scripts.judge.sound import JUDGE_RATE, read
from scripts.judge.weights import weights


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", type=Path)
    moonshine = Moonshine(weights() / "moonshine")
    with parser.parse_args().list.open(encoding="utf-8", newline="") as lines:
        for wav, right, wrong in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            samples, rate = read(Path(wav))
            resampled = np.asarray(resample_poly(samples, JUDGE_RATE, rate), np.float32)
            print(f"{moonshine.preference(resampled, right, wrong):.3f}", flush=True)


if __name__ == "__main__":
    main()
