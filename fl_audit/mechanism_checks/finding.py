"""What a replay expected and what it measured, in words and numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.mechanism_checks.checks import FALSE_ALARM
from fl_audit.mechanism_checks.promise import Promise, contribution

_TOLERANCE = 1e-3
"""The largest error of a difference that is taken for rounding, over the sensitivity."""

_MOST_NAMED = 3
"""The number of clients that words name at most."""


@dataclass(frozen=True)
class Finding:
    """One comparison of a replay.

    Attributes:
      name: The name of the comparison, see docs/replay.md.
      expected: What the mechanism promises, in words.
      measured: What was found, in words.
      log_p: The logarithm of a bound on the probability that a correct mechanism looks as bad; 0 or
        -inf where no chance is involved.
      variable: The variable of the model, from 1, that is farthest from the promise; None for the
        whole model.
      ratio: The measured over the promised length there; 1 where nothing differs.
    """

    name: str
    expected: str
    measured: str
    log_p: float
    variable: int | None
    ratio: float

    @property
    def passed(self) -> bool:
        """Whether a correct mechanism may look like this."""
        return self.log_p >= math.log(FALSE_ALARM)

    def __str__(self) -> str:
        """The finding as a line for people."""
        outcome = "passed" if self.passed else "FAILED"
        return f"{outcome} {self.name}: expected that {self.expected}; measured: {self.measured}"


def failed(name: str, expected: str, measured: str) -> Finding:
    """A finding that a correct mechanism can never cause."""
    return Finding(name, expected, measured, -math.inf, None, math.inf)


@dataclass(frozen=True, eq=False)
class Ruler:
    """The measure of differences between two releases of one mechanism.

    Attributes:
      sizes: The sizes of the model's variables.
      promise: What the mechanism promises.
      magnitude: The length of a release, whose rounding in float32 a difference cannot undercut.
    """

    sizes: Sequence[int]
    promise: Promise
    magnitude: float

    def lengths(self, vector: FloatArray) -> FloatArray:
        """The length of each variable, and last of the whole, of shape (variables + 1,)."""
        parts = np.split(vector, np.cumsum(self.sizes)[:-1])
        return np.array([np.linalg.norm(part) for part in (*parts, vector)])

    def compare(
        self,
        name: str,
        expected: str,
        difference: FloatArray,
        promised: FloatArray,
        clients: Sequence[FloatArray],
    ) -> Finding:
        """Compares the difference of two releases with the promised one.

        Args:
          name: The name of the finding.
          expected: What is promised, in words.
          difference: The difference of the releases, of shape (dim,).
          promised: The promised difference, of shape (dim,).
          clients: The updates by which a fault may be explained, the first client's first.
        """
        if not np.isfinite(difference).all():
            return failed(name, expected, "numbers that are not finite")
        error = difference - promised
        errors = self.lengths(error)
        if errors[-1] <= self._tolerance(promised):
            length = f"{np.linalg.norm(difference):.3g}"
            return Finding(name, expected, f"so, a change of {length}", 0.0, None, 1.0)
        at = int(np.argmax(errors[:-1] / np.sqrt(self.sizes)))
        measured, wanted = self.lengths(difference), self.lengths(promised)
        is_spread = errors[at] < 0.9 * errors[-1]
        where = len(errors) - 1 if is_spread else at
        ratio = measured[where] / wanted[where] if wanted[where] > 0 else math.inf
        words = self._words(error, clients, ratio, None if is_spread else at)
        return Finding(name, expected, words, -math.inf, None if is_spread else at + 1, ratio)

    def _tolerance(self, promised: FloatArray) -> float:
        """The length of an error that float32 may make."""
        scale = min(self.promise.sensitivity, float(np.linalg.norm(promised)) or math.inf)
        rounding = 8 * float(np.finfo(np.float32).eps) * self.magnitude
        return (_TOLERANCE * scale if math.isfinite(scale) else 0.0) + rounding

    def _words(
        self, error: FloatArray, clients: Sequence[FloatArray], ratio: float, variable: int | None
    ) -> str:
        """Who counts how often, if that explains an error; else its length and place."""
        place = "" if variable is None else f" in variable {variable + 1}"
        off = np.linalg.norm(error) / self.promise.sensitivity
        length = (
            f"a change {ratio:.3g} times as long as promised{place}"
            if math.isfinite(ratio)
            else f"a change{place} where none is promised"
        )
        words = f"{length}, {off:.3g} sensitivities away"
        return self._by_clients(error, clients) or words

    def _by_clients(self, error: FloatArray, clients: Sequence[FloatArray]) -> str | None:
        """The clients that count too often or not often enough, if that explains an error."""
        if not clients:
            return None
        parts = [contribution(client, self.promise) for client in clients]
        gram = np.array([[one @ other for other in parts] for one in parts])
        extra = np.linalg.lstsq(gram, np.array([part @ error for part in parts]), rcond=1e-9)[0]
        explained = sum((w * part for w, part in zip(extra, parts, strict=True)), np.zeros(()))
        is_explained = np.linalg.norm(error - explained) <= 0.01 * np.linalg.norm(error)
        wrong = np.flatnonzero(np.abs(extra) > 0.01)
        if not is_explained or not len(wrong):
            return None
        shown = [f"client {i + 1} by {extra[i]:+.3g}" for i in wrong[:_MOST_NAMED]]
        more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
        return (
            f"{len(wrong)} of {len(parts)} clients count more or less often than promised: "
            f"{', '.join(shown)}{more}"
        )
