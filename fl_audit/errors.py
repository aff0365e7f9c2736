"""Errors that end the program early: bad input, or a signal that requests a stop."""

import difflib
import signal
from collections.abc import Iterable, Sequence


class InputError(ValueError):
    """External input (config, file, command line) that cannot be used.

    Its message is one line that names the file, key or row, what was wrong and what would be right.
    The command line prints it on standard error and exits with status 2.
    """


class Interrupted(Exception):  # noqa: N818 - it is no error
    """A run stopped on request and saved its state."""

    def __init__(self, completed_rounds: int, signal_number: int) -> None:
        """Names the signal and the last completed round."""
        name = signal.Signals(signal_number).name
        super().__init__(f"stopped by {name} after round {completed_rounds}, state saved")
        self.completed_rounds = completed_rounds
        self.signal_number = signal_number


_TERMS = {
    "bernoulli": ("Poisson sampling", "poisson poisson_sampling"),
    "poisson": ("each client with the same probability", "bernoulli poisson_sampling"),
    "uniform": (
        "a fixed number of clients, sampled without replacement",
        "fixed_size without_replacement random",
    ),
    "fixed_size": ("sampled without replacement", "uniform without_replacement"),
    "shuffle": ("each client once an epoch", "permutation epoch epochs random_reshuffling"),
    "every_round": ("full participation", "full all always full_batch full_participation"),
    "replay": ("the participation that a log lists", "log logged trace"),
    "gaussian_fixed": ("a fixed clip norm", "gaussian dp_sgd dpsgd dp_fedavg"),
    "tree_aggregation": ("DP-FTRL with a tree", "ftrl dp_ftrl dpftrl tree binary_tree"),
    "distributed": ("each client adds a share of the noise", "secagg secure_aggregation skellam"),
    "client_gaussian": ("each client adds all of the noise", "local_dp ldp local_gaussian weak_dp"),
    "noise_multiplier": (
        "standard deviation of the noise, divided by the clip norm",
        "sigma noise z std stddev noise_scale",
    ),
    "clip_norm": (
        "the largest norm of an update",
        "clip clipping c s l2_norm_clip max_grad_norm sensitivity",
    ),
    "clients_per_round": (
        "the cohort's size; under Poisson sampling its mean",
        "cohort cohort_size sampling_rate sampling_probability sampling_prob q",
    ),
    "count": ("how many, included or not", "number num num_canaries n size"),
    "learning_rate": ("the step size", "lr eta step_size"),
    "rademacher": ("random signs", "sign signs random_signs"),
    "hadamard": ("orthogonal random signs", "walsh walsh_hadamard orthogonal"),
    "dirac": ("one coordinate each", "one_hot coordinate basis standard_basis"),
    "gaussian": ("a normalised standard normal vector", "normal"),
    "final": ("the final model alone", "black_box last_iterate final_model hidden_state"),
    "all_iterates": ("the noised aggregate of every round", "central all_rounds iterates"),
    "one_run_valid": ("Steinke et al.", "steinke one_shot"),
    "gaussian_fit": ("Andrew et al.", "andrew"),
    "one_run_fdp": ("Mahloujifar et al.", "f_dp fdp mahloujifar"),
    "bayes": ("Zanella-Béguelin et al.", "zanella_beguelin bayesian"),
    "local": ("TensorFlow in this process, on a GPU where there is one", "tensorflow tf gpu cuda"),
    "native": ("TFF's own C++ runtime", "tff cpp"),
    "estimate": ("audits scores, a log or a run", "audit score evaluate analyze analyse"),
    "show": ("prints the report of a run", "report print summary view"),
    "run": ("trains and audits", "train start"),
}
"""For a name in fl_audit: its meaning, and other words for it, separated by spaces."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint: the known name that means the same, else one of similar spelling, else all names.

    >>> nearest("noise_multipler", ["noise_multiplier", "clip_norm"])
    "did you mean 'noise_multiplier'?"
    >>> nearest("poisson", ["shuffle", "bernoulli", "cyclic_poisson"])
    "did you mean 'bernoulli' (Poisson sampling)?"
    """
    names = sorted(known)
    word = name.casefold().replace("-", "_").replace(" ", "_")
    for ours, (meaning, terms) in _TERMS.items():
        if ours in names and word in terms.split():
            return f"did you mean {ours!r} ({meaning})?"
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"


def refuse_misspelt(what: str, names: Iterable[str], optional: Sequence[str]) -> None:
    """Raises InputError for a name that is similar to a missing optional name.

    Otherwise the optional name would silently get its default. The message starts with `what`, such
    as "scores.csv: column".

    >>> refuse_misspelt("scores.csv: column", ["score", "Inclusions"], ["inclusion"])
    Traceback (most recent call last):
    ...
    fl_audit.errors.InputError: scores.csv: column 'Inclusions': did you mean 'inclusion'?
    """
    present = list(names)
    missing = [name for name in optional if name not in present]
    for name in sorted(set(present).difference(optional)):
        if close := difflib.get_close_matches(name.casefold(), missing, n=1, cutoff=0.78):
            raise InputError(f"{what} {name!r}: did you mean {close[0]!r}?")


def lines_of(error: BaseException) -> list[str]:
    r"""The lines of an error's text; without a text, the name of its type.

    >>> lines_of(ValueError("\nfirst\nlast\n")), lines_of(ValueError())
    (['first', 'last'], ['ValueError'])
    """
    return str(error).strip().splitlines() or [type(error).__name__]


_LONGEST_WORD = 300
_LONGEST_LINE = 1_500


def one_line(text: str) -> str:
    r"""A message as one line: control characters escaped, and long parts cut in the middle.

    >>> one_line("a.csv, line 2:\nmust be a number, got " + "9" * 5_000)
    'a.csv, line 2: must be a number, got 9999999999999999…9999999999999999 (5,000 characters)'
    """
    words = [_cut(word, _LONGEST_WORD, 16) for word in text.split()]
    return _cut(visible(" ".join(words)), _LONGEST_LINE, 500)


def _cut(text: str, longest: int, each_end: int) -> str:
    """The text; if it is too long, its first and last characters and its length."""
    if len(text) <= longest:
        return text
    return f"{text[:each_end]}…{text[-each_end:]} ({len(text):,} characters)"


def visible(text: str) -> str:
    r"""The text with escapes for control characters, such as newlines and colours.

    >>> visible("run\x1b[31m\n")
    'run\\x1b[31m\\n'
    """
    return "".join(map(_visible, text)) if not text.isprintable() else text


def _visible(character: str) -> str:
    is_shown = character.isprintable()
    return character if is_shown else character.encode("unicode_escape").decode("ascii")


_CONTROL_RANGES = (
    *((0, 9), (11, 32), (127, 160)),
    *((0x200E, 0x2010), (0x2028, 0x202F), (0x2066, 0x206A)),
)
_CONTROLS = {
    number: _visible(chr(number)) for first, end in _CONTROL_RANGES for number in range(first, end)
}
"""By code point, escapes of control characters (but tab and newline) and of text direction."""


def lines_visible(text: str) -> str:
    r"""A text of several lines, such as a page, with escapes for control characters.

    >>> lines_visible("<b>run\x1b[31m</b>\n")
    '<b>run\\x1b[31m</b>\n'
    """
    return text.translate(_CONTROLS)
