"""The errors that end the program early: bad input, or a signal that asked it to stop."""

import difflib
import signal
from collections.abc import Iterable, Sequence


class InputError(ValueError):
    """Input from outside (config, file, command line) that cannot be used.

    Its message is one line that names the file, key or row, what was wrong and what would be
    right. The command line prints it on standard error and exits with status 2.
    """


class Interrupted(Exception):  # noqa: N818 - it is no error
    """A run was asked to stop and has saved its state.

    Attributes:
      completed_rounds: The number of completed rounds.
      signal_number: The number of the signal that asked.
    """

    def __init__(self, completed_rounds: int, signal_number: int) -> None:
        """Says where the run stopped and why."""
        name = signal.Signals(signal_number).name
        super().__init__(f"stopped by {name} after round {completed_rounds}, state saved")
        self.completed_rounds = completed_rounds
        self.signal_number = signal_number


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint naming the known name closest to `name`, else listing all of them.

    >>> nearest("noise_multipler", ["noise_multiplier", "clip_norm"])
    "did you mean 'noise_multiplier'?"
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(names)}"


def refuse_misspelt(what: str, names: Iterable[str], optional: Sequence[str]) -> None:
    """Refuses a name that is none of the optional ones, but nearly; others are let through.

    What may be missing is easily missed where its name is misspelt, and a default taken for it.

    Args:
      what: What the names are of, such as "scores.csv: column", which starts the message.
      names: The names that are there.
      optional: The names that are known and may be missing.

    Raises:
      InputError: A name is nearly an optional one, which is not there itself.

    >>> refuse_misspelt("scores.csv: column", ["score", "Inclusions"], ["inclusion"])
    Traceback (most recent call last):
    ...
    fl_audit.errors.InputError: scores.csv: column 'Inclusions': did you mean 'inclusion'?
    """
    there = list(names)
    missing = [name for name in optional if name not in there]
    for name in sorted(set(there).difference(optional)):
        if close := difflib.get_close_matches(name.casefold(), missing, n=1, cutoff=0.78):
            raise InputError(f"{what} {name!r}: did you mean {close[0]!r}?")


_LONGEST_WORD = 300
_LONGEST_LINE = 1_500


def one_line(text: str) -> str:
    r"""A message as one line: control characters escaped, and what is very long cut in its middle.

    >>> one_line("a.csv, line 2:\nmust be a number, got " + "9" * 5_000)
    'a.csv, line 2: must be a number, got 9999999999999999…9999999999999999 (5,000 characters)'
    """
    words = [_cut(word, _LONGEST_WORD, 16) for word in text.split()]
    return _cut(visible(" ".join(words)), _LONGEST_LINE, 500)


def _cut(text: str, longest: int, kept: int) -> str:
    """The text, or where it is too long its first and last characters and its length."""
    if len(text) <= longest:
        return text
    return f"{text[:kept]}…{text[-kept:]} ({len(text):,} characters)"


def visible(text: str) -> str:
    r"""The text with escapes for what a terminal would obey, such as newlines and colours.

    >>> visible("run\x1b[31m\n")
    'run\\x1b[31m\\n'
    """
    return "".join(map(_visible, text)) if not text.isprintable() else text


def _visible(character: str) -> str:
    is_shown = character.isprintable()
    return character if is_shown else character.encode("unicode_escape").decode("ascii")
