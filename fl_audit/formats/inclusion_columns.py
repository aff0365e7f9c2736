"""The columns of a score file that say how it was decided which canaries take part.

Without any of them a fair coin fell for each canary.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from fl_audit.errors import nearest
from fl_audit.estimators.scores import Inclusion

INCLUSION, PROBABILITY, PAIR = "inclusion", "inclusion_probability", "pair"
INCLUSION_COLUMNS = (INCLUSION, PROBABILITY, PAIR)

_KINDS: Mapping[str, Inclusion] = {kind: kind for kind in get_args(Inclusion)}
_NEEDED: Mapping[Inclusion, str] = {"unequal_coins": PROBABILITY, "pairs": PAIR}
"""The further column that a way of including canaries needs."""


@dataclass(frozen=True)
class BadRow:
    """The first bad row: its index from 0, and what is wrong with it."""

    row: int
    text: str


@dataclass(frozen=True)
class ReadInclusion:
    """How it was decided which canaries take part, as a file says it.

    Attributes:
      inclusion: The way of including them.
      probability: The probability with which a canary is included.
      pair: The name of each canary's pair; empty without pairs.
      problem: What is wrong with the columns; None where nothing is.
    """

    inclusion: Inclusion = "coins"
    probability: float = 0.5
    pair: tuple[str, ...] = ()
    problem: BadRow | None = None


def read_inclusion(
    columns: Mapping[str, Sequence[str]],
    included: npt.NDArray[np.bool_],
    name_row: Callable[[int], str],
) -> ReadInclusion:
    """Reads and checks the columns.

    Args:
      columns: The text of the columns that the file has.
      included: Whether each canary took part, bool of shape (k,).
      name_row: How a row is named to the file's author.
    """
    words = columns.get(INCLUSION, ())
    problem = _bad_word(words, name_row)
    kind = _KINDS[words[0]] if words and not problem else "coins"
    if PROBABILITY in columns and kind != "unequal_coins" and not problem:
        text = f"{PROBABILITY} goes with {INCLUSION} 'unequal_coins', not with {kind!r}"
        problem = BadRow(0, text)
    if problem:
        return ReadInclusion(problem=problem)
    needed = _NEEDED.get(kind)
    if needed is not None and needed not in columns:
        return ReadInclusion(problem=BadRow(0, f"inclusion {kind!r} needs a column {needed!r}"))
    if kind == "unequal_coins":
        return _unequal(columns[PROBABILITY], name_row)
    pair = tuple(columns[PAIR]) if kind == "pairs" else ()
    return ReadInclusion(kind, pair=pair, problem=bad_pair(pair, included) if pair else None)


def bad_pair(pair: Sequence[str], included: npt.NDArray[np.bool_]) -> BadRow | None:
    """The first row whose pair is not one included and one excluded canary."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(pair):
        rows.setdefault(name, []).append(row)
    for name, found in rows.items():
        if len(found) != 2 or int(included[found].sum()) != 1:
            text = f"pair {name!r} must be two canaries, one of them included, got {len(found)}"
            return BadRow(found[0], f"{text}, {int(included[found].sum())} of them included")
    return None


def _bad_word(words: Sequence[str], name_row: Callable[[int], str]) -> BadRow | None:
    """The first row that says no known way, or another one than the first row."""
    for row, word in enumerate(words):
        if word not in _KINDS:
            hint = nearest(word, _KINDS)
            return BadRow(row, f"inclusion must be a known word, got {word!r}: {hint}")
        if word != words[0]:
            text = f"inclusion must be the same in every row, got {word!r}; {name_row(0)} has"
            return BadRow(row, f"{text} {words[0]!r}")
    return None


def _unequal(texts: Sequence[str], name_row: Callable[[int], str]) -> ReadInclusion:
    """Coins of one probability, which is the same in every row."""
    for row, text in enumerate(texts):
        if text != texts[0]:
            wrong = f"{PROBABILITY} must be the same in every row, got {text!r}; {name_row(0)} has"
            return ReadInclusion(problem=BadRow(row, f"{wrong} {texts[0]!r}"))
    try:
        probability = float(texts[0]) if "_" not in texts[0] else math.nan
    except ValueError:
        probability = math.nan
    if not 0 < probability < 1 or probability == 0.5:
        wrong = f"{PROBABILITY} must be a number in (0, 1) other than 0.5, got {texts[0]!r}"
        return ReadInclusion(problem=BadRow(0, wrong))
    return ReadInclusion("unequal_coins", probability)
