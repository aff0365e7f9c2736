"""The registry of methods: one record for each, from which every list of methods is derived.

Another package adds a method by one function and one call of `register_method`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from fl_audit.array_types import BoolArray
from fl_audit.estimators.counts.bayes import bayes
from fl_audit.estimators.epsilon_star import epsilon_star, epsilon_star_empirical
from fl_audit.estimators.gaussian.fit import gaussian_fit, gaussian_fit_epsilon
from fl_audit.estimators.gaussian.mechanism import gdp_fit
from fl_audit.estimators.gaussian.shift_fit import shift_fit, shift_fit_epsilon
from fl_audit.estimators.one_run.f_dp import one_run_fdp
from fl_audit.estimators.one_run.guesses import one_run
from fl_audit.estimators.one_run.valid_guesses import (
    one_run_epsilons,
    one_run_rejection,
    one_run_valid,
)
from fl_audit.estimators.result import WHATEVER_DISTRIBUTION, Estimate, Kind, ValidFor
from fl_audit.estimators.scores import Inclusion
from fl_audit.estimators.setting import AuditSetting, NotApplicableError, where_applicable
from fl_audit.estimators.threshold.published import threshold_clopper_pearson, threshold_jeffreys
from fl_audit.estimators.threshold.valid_threshold import (
    threshold_gdp,
    threshold_rejection,
    threshold_valid,
)
from fl_audit.registry import Registry

Rejection = Callable[[Sequence[AuditSetting]], BoolArray]
"""For each sample, whether a test rejects its hypothesis, bool of shape (samples,)."""

Epsilons = Callable[[Sequence[AuditSetting]], Sequence[float | None]]
"""The epsilon of each sample; None if its scores do not allow the method."""

_REFUSED: Mapping[Inclusion, str] = {
    "coins": "each had one",
    "unequal_coins": "coins were not fair",
    "fixed_half": "a fixed half was included",
    "pairs": "one of each pair was included",
}
"""Why a method whose proof does not cover a way of including canaries is left out."""


@dataclass(frozen=True)
class Method:
    """A way to turn scores into epsilon, and what it claims.

    Attributes:
      name: Name of the method, such as "one_run".
      estimate: Function that makes the estimate from scores; it raises `NotApplicableError` for
        scores that it cannot use.
      kind: Kind of every estimate that the method makes.
      valid_for: Mechanisms for which the method's bound is valid; every estimate repeats it.
      fast_rejection: Given (epsilon, delta, level), a fast test of many samples: whether the lower
        bound at confidence 1 - level exceeds epsilon. For simulations, in which all settings have
        that delta and confidence and a true null. None: compute the bound and compare.
      fast_epsilons: The epsilons of many samples of one delta and one confidence, without the rest
        of their estimates. For simulations. None: compute the estimates.
      valid_inclusions: The ways of including canaries for which the method may be used; scores of
        others are refused.

    Raises:
      ValueError: The kind or what the method is valid for is unknown.
    """

    name: str
    estimate: Callable[[AuditSetting], Estimate]
    kind: Kind
    valid_for: ValidFor | None = None
    fast_rejection: Callable[[float, float, float], Rejection] | None = None
    fast_epsilons: Epsilons | None = None
    valid_inclusions: tuple[Inclusion, ...] = get_args(Inclusion)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {get_args(Kind)}, got {self.kind!r}")
        if self.valid_for not in (None, *get_args(ValidFor)):
            raise ValueError(
                f"valid_for must be None or one of {get_args(ValidFor)}, got {self.valid_for!r}"
            )

    @property
    def is_valid(self) -> bool:
        """Whether the method makes lower bounds that assume no distribution of scores."""
        return self.kind == "lower_bound" and self.valid_for in WHATEVER_DISTRIBUTION

    def allows(self, inclusion: Inclusion) -> bool:
        """Whether the method may be used for this way of including canaries."""
        return inclusion in self.valid_inclusions

    def __call__(self, setting: AuditSetting) -> Estimate:
        """The estimate from the scores of a setting."""
        inclusion = setting.scores.inclusion
        if not self.allows(inclusion):
            raise NotApplicableError(
                f"needs an independent fair coin for each canary; here {_REFUSED[inclusion]}"
            )
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                estimate = self.estimate(setting)
        except ArithmeticError as error:
            raise NotApplicableError(
                "cannot be computed in floating point: the scores are too many orders of magnitude "
                "apart"
            ) from error
        says = (estimate.method, estimate.kind, estimate.valid_for)
        if says != (self.name, self.kind, self.valid_for):
            raise ValueError(
                f"the method registered as {(self.name, self.kind, self.valid_for)} made an "
                f"estimate that says {says}"
            )
        return estimate

    def epsilons(self, settings: Sequence[AuditSetting]) -> Sequence[float | None]:
        """The epsilon of each sample; None if its scores do not allow the method."""
        if self.fast_epsilons is not None and all(
            self.allows(setting.scores.inclusion) for setting in settings
        ):
            return self.fast_epsilons(settings)
        return where_applicable(lambda setting: self(setting).epsilon, settings)

    def rejection(self, epsilon: float, delta: float, level: float) -> Rejection:
        """The test, for many samples, of whether the bound at 1 - level and delta exceeds epsilon.

        It takes the null of each sample as true and does not test it on the excluded scores.
        """
        if self.fast_rejection is not None:
            return self.fast_rejection(epsilon, delta, level)
        return lambda settings: np.array(
            [self.rejects(setting, epsilon) for setting in settings], bool
        )

    def rejects(self, setting: AuditSetting, epsilon: float) -> bool:
        """Whether the bound exceeds epsilon; False if the scores allow no bound."""
        try:
            return self(setting).epsilon > epsilon
        except NotApplicableError:
            return False


_BUILT_IN = (
    Method(
        "gaussian_fit",
        gaussian_fit,
        "estimate",
        fast_epsilons=functools.partial(where_applicable, gaussian_fit_epsilon),
    ),
    Method("gdp_fit", gdp_fit, "estimate"),
    Method(
        "shift_fit",
        shift_fit,
        "interval",
        fast_epsilons=functools.partial(where_applicable, shift_fit_epsilon),
    ),
    Method("threshold_jeffreys", threshold_jeffreys, "lower_bound"),
    Method("threshold_clopper_pearson", threshold_clopper_pearson, "lower_bound"),
    Method(
        "threshold_valid",
        threshold_valid,
        "lower_bound",
        "independent scores",
        fast_rejection=threshold_rejection,
    ),
    Method(
        "threshold_gdp", threshold_gdp, "lower_bound", "independent scores of a Gaussian mechanism"
    ),
    Method("one_run", one_run, "lower_bound", valid_inclusions=("coins",)),
    Method(
        "one_run_valid",
        one_run_valid,
        "lower_bound",
        "any mechanism",
        fast_rejection=one_run_rejection,
        fast_epsilons=one_run_epsilons,
        valid_inclusions=("coins", "unequal_coins", "pairs"),
    ),
    Method(
        "one_run_fdp",
        one_run_fdp,
        "lower_bound",
        "Gaussian mechanisms",
        valid_inclusions=("coins",),
    ),
    Method("bayes", bayes, "interval"),
    Method("epsilon_star", epsilon_star, "estimate"),
    Method("epsilon_star_empirical", epsilon_star_empirical, "estimate"),
)

METHODS = Registry[Method]("method")
"""Every registered method by name, in the order of reports."""

for _method in _BUILT_IN:
    METHODS.register(_method)


def register_method(method: Method) -> Method:
    """Add a method at the end of the order of reports, and return it.

    Raises:
      ValueError: The name is taken, or is "all".
    """
    if method.name == "all":
        raise ValueError("a method may not be named 'all', which selects every method")
    return METHODS.register(method)


remove_method = METHODS.remove


def valid_methods(inclusion: Inclusion = "coins") -> tuple[str, ...]:
    """Names of the methods whose lower bounds assume no distribution of scores.

    >>> valid_methods()
    ('threshold_valid', 'one_run_valid')
    >>> valid_methods("fixed_half")
    ('threshold_valid',)
    """
    return tuple(
        name for name, method in METHODS.items() if method.is_valid and method.allows(inclusion)
    )
