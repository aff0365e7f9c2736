"""The outcome of one check, and the configured noise and norm of an aggregate."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fl_audit.config_tables.kinds import RecordedTable
from fl_audit.json_records import WRITTEN_IF_SET, fields_from_json, fields_to_json, from_json
from fl_audit.mechanisms import MECHANISMS, Mechanism

FALSE_ALARM = 1e-6
"""The largest probability that a correct mechanism fails a check, over all rounds and variables."""


@dataclass(frozen=True)
class Check:
    """The outcome of one check: of aggregates, of cohorts, or one comparison of a replay.

    Attributes:
      name: The name of the check in report.json, which puts `replay_` before a replay's names.
      log_p: The logarithm of a bound on the probability that a correct mechanism looks as bad, over
        all tests; 0 or -inf if no chance is involved.
      num_tests: The number of tests, mostly one for each round and variable.
      round: The round, from 1, with the worst value; None if no round differs, or if all rounds
        together are worst.
      variable: The variable of the model, from 1, with the worst value; None for the whole model.
      ratio: The measured over the expected value there (docs/checks.md).
      earlier_round: The earlier round, from 1, whose noise the worst round repeats; None if there
        is no single such round.
      meaning: What a correct mechanism does, in words; empty if the report adds these words.
      measured: The finding in words, of replays and cohorts; None for other checks.
      is_conclusive: Whether the check has an answer; without one it has not failed.
      detectable_ratio: The largest ratio of actual to configured noise, below 1, at which the check
        fails with probability 95 %; None for a check of something else.
    """

    name: str
    log_p: float
    num_tests: int
    round: int | None
    variable: int | None
    ratio: float
    meaning: str = ""
    measured: str | None = field(default=None, metadata=WRITTEN_IF_SET)
    is_conclusive: bool = field(default=True, metadata=WRITTEN_IF_SET)
    earlier_round: int | None = field(default=None, metadata=WRITTEN_IF_SET)
    detectable_ratio: float | None = field(default=None, metadata=WRITTEN_IF_SET)

    @property
    def was_made(self) -> bool:
        """Whether something was tested, with an answer."""
        return self.is_conclusive and self.num_tests > 0

    @property
    def failed(self) -> bool:
        """Whether the outcome is very unlikely under a correct mechanism."""
        return self.log_p < math.log(FALSE_ALARM)

    @property
    def passed(self) -> bool | None:
        """Whether the outcome fits a correct mechanism; None without a test or an answer."""
        return not self.failed if self.failed or self.was_made else None

    @property
    def outcome(self) -> str:
        """`held`, `failed` or `could not tell`."""
        return {True: "held", False: "failed", None: "could not tell"}[self.passed]

    def __str__(self) -> str:
        """One line of text, for a check that has `meaning` and `measured`."""
        outcome = "FAILED" if self.failed else self.outcome
        return f"{outcome} {self.name}: expected that {self.meaning}; measured: {self.measured}"

    @property
    def p_value(self) -> float:
        """The p-value of all tests of the check together; 0 if it is too small for a float."""
        return math.exp(self.log_p)

    def to_json(self) -> dict[str, object]:
        """The JSON object of report.json, which has the p-value and whether the check passed."""
        fields = fields_to_json(self)
        del fields["log_p"]
        outcome = {"passed": self.passed, "p_value": self.p_value}
        return {"name": fields["name"], "meaning": fields["meaning"], **outcome, **fields}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Check":
        """The check that `to_json` writes; raises ValueError for a missing key or a wrong type."""
        p_value = from_json(float, fields["p_value"])
        log_p = math.log(p_value) if p_value > 0 else -math.inf
        return fields_from_json(cls, fields, log_p=log_p)


def compared(
    name: str,
    expected: str,
    measured: str,
    *,
    log_p: float = 0.0,
    variable: int | None = None,
    ratio: float = 1.0,
    is_conclusive: bool = True,
    detectable_ratio: float | None = None,
) -> Check:
    """A comparison of what is expected with what is measured, in words; by default they agree."""
    return Check(
        name=name,
        log_p=log_p,
        num_tests=1,
        round=None,
        variable=variable,
        ratio=ratio,
        meaning=expected,
        measured=measured,
        is_conclusive=is_conclusive,
        detectable_ratio=detectable_ratio,
    )


def failed(name: str, expected: str, measured: str, ratio: float = math.inf) -> Check:
    """A comparison with a result that is impossible under a correct mechanism."""
    return compared(name, expected, measured, log_p=-math.inf, ratio=ratio)


def inconclusive(name: str, expected: str, why: str) -> Check:
    """A comparison without an answer, and the reason."""
    return compared(name, expected, why, is_conclusive=False)


# The configured noise and norm bound.


T = TypeVar("T", float, npt.NDArray[np.float64])


@dataclass(frozen=True, eq=False)
class Configured(Generic[T]):
    """Noise and norm bound of one round, or of several rounds as arrays."""

    stddev: T  # the standard deviation of the noise on a coordinate
    norm_bound: T  # the largest norm of the aggregate without noise


def configured(
    clip_norm: T, participants: T, *, sum_noise_multiplier: T, denominator: float
) -> Configured[T]:
    """Noise and norm bound of a noised sum of clipped updates, divided by a fixed number.

    Args:
      clip_norm: The norm that the round's updates were clipped to.
      participants: The number of clients and canaries in the round.
      sum_noise_multiplier: The standard deviation of the noise on the sum, over the clip norm.
      denominator: The divisor of the sum.
    """
    of_one = clip_norm / denominator
    return Configured(stddev=sum_noise_multiplier * of_one, norm_bound=participants * of_one)


def why_not_checked(mechanism: Mechanism) -> str | None:
    """Why a run's aggregates are not checked, in words; None if they are checked."""
    if isinstance(mechanism, RecordedTable):
        return "the mechanism is from a plugin, and plugins are not imported to read a folder"
    return MECHANISMS.kind_of(mechanism).why_not_checked
