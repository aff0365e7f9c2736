"""A misspelt word in a file is refused in one line, or changes nothing; no default takes its place.

Every word of a valid file is misspelt in many ways: names of columns, of keys and of kinds.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fl_audit.attacks.log_scores import score_log
from fl_audit.attacks.logs import read_log
from fl_audit.canaries.pool import read_pool
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.participation_files import read_canaries
from fl_audit.formats.score_file import read_counts_file, read_score_file

SCORES = "canary_id,included,score,inclusion\n0,1,0.5,fixed_half\n1,0,0.25,fixed_half\n"
CANARIES = "canary_id,included,rounds\n0,1,1 2\n1,0,2 3\n"
COUNTS = "fp,n0,fn,n1\n1,10,2,10\n3,20,4,20\n"
POOL = json.dumps(
    {
        "format_version": 2,
        "family": "hadamard",
        "seed": 1,
        "count": 2,
        "dim": 8,
        "inclusion": "fixed_half",
    }
)


def misspelt(word: str) -> Iterator[str]:
    """Ways to misspell a word."""
    yield from (word.upper(), word.title(), word + "s", word + " ", f" {word}", f'"{word}"')
    yield from (word.replace("_", "-"), word.replace("_", " "), word.replace("_", ""))
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]
        yield word[:at] + word[at] + word[at:]
        yield word[:at] + "x" + word[at + 1 :]


def texts(text: str) -> Iterator[str]:
    """The text with one word or all equal ones misspelt."""
    for found in re.finditer(r"[A-Za-z_]+[0-9]?", text):
        word = found[0]
        for other in misspelt(word):
            yield text[: found.start()] + other + text[found.end() :]
            yield re.sub(rf"\b{word}\b", other, text)


def _scores(path: Path) -> object:
    read = read_score_file(path)
    return read.canary_id, read.included.tolist(), read.score.tolist(), read.inclusion


def _canaries(path: Path) -> object:
    rows = read_canaries(path).items()
    return [
        (name, row.included, None if row.rounds is None else row.rounds.tolist())
        for name, row in rows
    ]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (SCORES, _scores),
        (CANARIES, _canaries),
        (COUNTS, lambda path: repr(read_counts_file(path))),
        (POOL, read_pool),
    ],
    ids=["scores", "canaries", "counts", "pool"],
)
def test_no_misspelt_word_is_passed_over(tmp_path, text: str, read: Callable[[Path], object]):
    path = tmp_path / "file.csv"
    path.write_text(text)
    right, refused = read(path), 0
    for number, spoilt in enumerate(texts(text)):
        path = tmp_path / f"{number}.csv"
        path.write_text(spoilt)
        try:
            assert read(path) == right, spoilt
        except InputError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 50


def test_no_misspelt_file_of_a_log_is_passed_over(tmp_path):
    pool = {"format_version": 2, "family": "gaussian", "seed": 3, "count": 4, "dim": 50}
    random = np.random.default_rng(1)
    made = LogFolder(tmp_path / "log")
    made.aggregates.mkdir(parents=True)
    made.pool.write_text(json.dumps(pool))
    made.canaries.write_text("canary_id,included,rounds\n0,1,1\n1,1,1\n2,0,1\n3,1,1\n")
    for path in (made.aggregates / "round_1.npy", made.initial, made.final):
        np.save(path, random.normal(size=50).astype(np.float32))
    np.save(made.round_lengths, np.ones((1, 2)))
    right = score_log(read_log(made, iter)).scores
    assert set(right) == {"final", "final_minus_initial", "max", "sum", "own_rounds"}
    for path in (made.aggregates, made.canaries, made.initial, made.final, made.round_lengths):
        stem, dot, suffix = path.name.partition(".")
        for other in misspelt(stem):
            spoilt = path.with_name(other + dot + suffix)
            if spoilt == path:
                continue
            path.rename(spoilt)
            with pytest.raises(InputError, match="did you mean"):
                score_log(read_log(made, iter))
            spoilt.rename(path)
