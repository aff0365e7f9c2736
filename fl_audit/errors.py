"""The one exception for bad input from outside, and how it names what was probably meant."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Input from outside (config, file, command line) that cannot be used.

    Its message is one line that names the file, key or row, what was wrong and what would be
    right. The command line prints it on standard error and exits with status 2.
    """


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
