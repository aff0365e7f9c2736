"""The registry of methods, and estimates by all or some of them.

Another package adds a method by one function and one call of `register_method`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np

from fl_audit.array_types import BoolArray
from fl_audit.errors import InputError, nearest
from fl_audit.estimators.counts.bayes import bayes
from fl_audit.estimators.epsilon_star import epsilon_star, epsilon_star_empirical
from fl_audit.estimators.gaussian.fit import gaussian_fit, gaussian_fit_epsilon
from fl_audit.estimators.gaussian.mechanism import gdp_fit
from fl_audit.estimators.gaussian.shift_fit import shift_fit, shift_fit_epsilon
from fl_audit.estimators.null import Null, NullKind, NullTail
from fl_audit.estimators.one_run.f_dp import one_run_fdp
from fl_audit.estimators.one_run.guesses import one_run
from fl_audit.estimators.one_run.valid_guesses import (
    one_run_epsilons,
    one_run_rejection,
    one_run_valid,
)
from fl_audit.estimators.result import (
    WHATEVER_DISTRIBUTION,
    Estimate,
    Kind,
    Record,
    ValidFor,
    data_frame,
    html_table,
)
from fl_audit.estimators.roc import RocSummary, roc_summary
from fl_audit.estimators.scores import CanaryScores, Inclusion
from fl_audit.estimators.setting import AuditSetting, NotApplicableError, where_applicable
from fl_audit.estimators.threshold.jeffreys_clopper_pearson import (
    threshold_clopper_pearson,
    threshold_jeffreys,
)
from fl_audit.estimators.threshold.valid_threshold import (
    threshold_gdp,
    threshold_rejection,
    threshold_valid,
)
from fl_audit.json_records import UNWRITTEN, fields_to_json
from fl_audit.registry import Registry

Rejection = Callable[[Sequence[AuditSetting]], BoolArray]
"""A function from samples to whether a test rejects a claim on each, bool of shape (samples,)."""

Epsilons = Callable[[Sequence[AuditSetting]], Sequence[float | None]]
"""A function from samples to the epsilon of each; None where scores do not allow the method."""

_INCLUDED: Mapping[Inclusion, str] = {
    "coins": "by independent fair coins",
    "unequal_coins": "by independent unfair coins",
    "fixed_half": "as a fixed half",
    "pairs": "as one of each pair",
}
"""How canaries were included, after "included"."""


@dataclass(frozen=True)
class Method:
    """A method that turns scores into epsilon, and its claims.

    Attributes:
      name: Name of the method, such as "one_run".
      estimate: A function from a setting to an estimate; raises `NotApplicableError` for
        unsuitable scores.
      kind: Kind of every estimate that the method makes.
      valid_for: Mechanisms for which the method's bound is valid, repeated in every estimate.
      fast_rejection: A function from (epsilon, delta, level) to a fast test of samples: whether
        the lower bound at confidence 1 - level exceeds epsilon. For simulations, where all settings
        have this delta, this confidence and a true null. If None, the bound is computed and
        compared.
      fast_epsilons: A function from samples with one delta and confidence to their epsilons,
        without the other fields of the estimates. For simulations. If None, the estimates are
        computed.
      valid_inclusions: The ways of including canaries for which the method may be used; for
        others it raises `NotApplicableError`.

    Raises:
      ValueError: `kind` or `valid_for` is not one of the known values.
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
        """Whether the method makes lower bounds that assume no distribution of included scores."""
        return self.kind == "lower_bound" and self.valid_for in WHATEVER_DISTRIBUTION

    def allows(self, inclusion: Inclusion) -> bool:
        """Whether the method may be used for this way of including canaries."""
        return inclusion in self.valid_inclusions

    def __call__(self, setting: AuditSetting) -> Estimate:
        """The estimate from the scores of a setting."""
        inclusion = setting.scores.inclusion
        if not self.allows(inclusion):
            allowed = " or ".join(_INCLUDED[each] for each in self.valid_inclusions)
            raise NotApplicableError(
                f"needs canaries included {allowed}; these were included {_INCLUDED[inclusion]}"
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
        """The epsilon of each sample; None where scores do not allow the method."""
        if self.fast_epsilons is not None and all(
            self.allows(setting.scores.inclusion) for setting in settings
        ):
            return self.fast_epsilons(settings)
        return where_applicable(lambda setting: self(setting).epsilon, settings)

    def rejection(self, epsilon: float, delta: float, level: float) -> Rejection:
        """A test of many samples: whether the bound at confidence 1 - level exceeds epsilon.

        It is False where scores allow no bound. The settings' own delta and confidence are not
        used. A fast test assumes the null of each sample, without testing it on the excluded
        scores.
        """
        at = functools.partial(replace, delta=delta, confidence=1 - level)
        if self.fast_rejection is None:
            return lambda settings: np.array([self.rejects(at(s), epsilon) for s in settings], bool)
        fast = self.fast_rejection(epsilon, delta, level)

        def rejects(settings: Sequence[AuditSetting]) -> BoolArray:
            rejected = np.array([self.allows(each.scores.inclusion) for each in settings], bool)
            rejected[rejected] = fast([settings[index] for index in np.flatnonzero(rejected)])
            return rejected

        return rejects

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
    """Add a method, which reports then show last, and return it.

    Raises:
      ValueError: The name is taken, or is "all".
    """
    if method.name == "all":
        raise ValueError("a method may not be named 'all', which selects every method")
    return METHODS.register(method)


remove_method = METHODS.remove


def valid_methods(inclusion: Inclusion | None = None) -> tuple[str, ...]:
    """Names of the methods with `is_valid` that allow a way of including canaries; None for any.

    >>> valid_methods()
    ('threshold_valid', 'one_run_valid')
    >>> valid_methods("fixed_half")
    ('threshold_valid',)
    """
    return tuple(
        name
        for name, method in METHODS.items()
        if method.is_valid and (inclusion is None or method.allows(inclusion))
    )


@dataclass(frozen=True)
class AuditResult:
    """The estimates from one set of canary scores.

    Attributes:
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of every bound, in (0, 1).
      dim: Number of trainable parameters; None if this number is not known.
      num_included: Number of canaries that participated in training.
      num_excluded: Number of canaries that did not participate.
      roc: AUC and true positive rates of the scores; None without scores of both kinds.
      estimates: One estimate per method, in the order of the methods.
      left_out: Default methods that do not apply to these scores, each with the reason.
    """

    delta: float
    confidence: float
    dim: int | None
    num_included: int
    num_excluded: int
    roc: RocSummary | None
    estimates: tuple[Estimate, ...]
    left_out: Mapping[str, str] = field(default_factory=dict, metadata=UNWRITTEN)

    def records(self) -> list[Record]:
        """One row per estimate, ready for `pandas.DataFrame`; infinities are floats.

        >>> scores = CanaryScores(included=[0.1, 0.2, 0.3], excluded=[0.0, -0.1])
        >>> estimate(scores, delta=1e-5, methods=["one_run_valid"]).records()[0]["kind"]
        'lower_bound'
        """
        setting = {"delta": self.delta, "confidence": self.confidence}
        return [{**estimate.record(), **setting} for estimate in self.estimates]

    def to_pandas(self) -> Any:
        """The rows of `records` as a `pandas.DataFrame`."""
        return data_frame(self.records())

    def _repr_html_(self) -> str:
        """The table that a notebook shows, most reliable estimates first."""
        canaries = (
            f"{self.num_included} included and {self.num_excluded} excluded canaries, "
            f"δ = {self.delta:g}, confidence {self.confidence:g}"
        )
        return f"<p>{canaries}</p>{html_table(self.estimates)}"

    def to_json(self) -> dict[str, object]:
        """The JSON object that `fl-audit estimate --json` prints."""
        return fields_to_json(self)


def estimate(
    scores: CanaryScores,
    *,
    delta: float,
    dim: int | None = None,
    confidence: float = 0.95,
    methods: Sequence[str] | None = None,
    null: Null | NullKind | None = None,
    null_tail: NullTail | None = None,
) -> AuditResult:
    """Turn canary scores into privacy estimates.

    Args:
      scores: The canaries' scores; larger means more like a member.
      delta: The delta of differential privacy, in [0, 1).
      dim: Number of trainable parameters, at least 2, if scores are cosines. By default the
        closed-form null for that dimension is then assumed, and tested on the excluded scores.
      confidence: Confidence of every bound, in (0, 1).
      methods: Names of methods in METHODS; by default all that these scores allow.
      null: The null distribution, if the program that drew and scored the canaries knows it (omit
        dim and null_tail then), or only its kind, "closed_form" or "empirical". By default
        closed_form if dim is given, else empirical.
      null_tail: The tail of an excluded canary's score on which valid bounds may rely, such as
        GaussianCanaryNull(dim) for cosines of gaussian canaries. By default, if dim is given, a
        bound that holds for canaries of every family.

    Raises:
      InputError: An argument is out of range, a method is unknown or cannot be applied, or no
        default method can be.

    >>> scores = CanaryScores(included=[0.1, 0.2, 0.3], excluded=[])
    >>> result = estimate(scores, delta=1e-5, dim=1000)
    >>> [each.method for each in result.estimates if each.valid_for == "independent scores"]
    ['threshold_valid']
    >>> result.left_out["one_run"]
    'needs at least 1 excluded score, got 0'
    """
    setting = AuditSetting(scores, delta, confidence, _given_null(null, dim, null_tail))
    if methods is not None:
        return _result(setting, [_apply(name, setting) for name in known_methods(methods)], {})
    estimates, left_out = [], {}
    for name, method in METHODS.items():
        try:
            estimates.append(method(setting))
        except NotApplicableError as error:
            left_out[name] = str(error)
    if not estimates:
        raise InputError(f"no method can be applied: {_why_none(scores, left_out)}")
    return _result(setting, estimates, left_out)


def _why_none(scores: CanaryScores, left_out: Mapping[str, str]) -> str:
    if scores.num_excluded == 0:
        return (
            "there are no excluded canaries, whose scores show what chance gives; score some that "
            "did not participate, or give dim if scores are cosines"
        )
    if scores.num_included == 0:
        return "there are no included canaries, whose scores would show leakage"
    return "; ".join(reasons(left_out))


def _given_null(null: Null | NullKind | None, dim: int | None, tail: NullTail | None) -> Null:
    if not isinstance(null, Null):
        kind: NullKind = null or ("empirical" if dim is None else "closed_form")
        return Null(kind, tail, dim, source="argument")
    if dim is not None or tail is not None:
        raise InputError("null already states dim and null_tail; leave these out")
    return null


def reasons(left_out: Mapping[str, str]) -> list[str]:
    """Each reason once, after the names of the methods left out for that reason.

    >>> reasons({"a": "needs more", "b": "needs more", "c": "needs dim"})
    ['a, b: needs more', 'c: needs dim']
    """
    methods: dict[str, list[str]] = {}
    for method, reason in left_out.items():
        methods.setdefault(reason, []).append(method)
    return [f"{', '.join(names)}: {reason}" for reason, names in methods.items()]


def known_methods(methods: Sequence[str]) -> Sequence[str]:
    """The method names; raises InputError for none or an unknown one."""
    if not methods:
        raise InputError(f"methods must name at least one of: {', '.join(METHODS)}")
    for name in methods:
        if name not in METHODS:
            raise InputError(f"unknown method {name!r}: {nearest(name, METHODS)}")
    return methods


def _apply(name: str, setting: AuditSetting) -> Estimate:
    try:
        return METHODS[name](setting)
    except NotApplicableError as error:
        raise InputError(f"{name}: {error}") from error


def _result(
    setting: AuditSetting, estimates: Sequence[Estimate], left_out: Mapping[str, str]
) -> AuditResult:
    scores = setting.scores
    both = scores.num_included > 0 and scores.num_excluded > 0
    return AuditResult(
        delta=setting.delta,
        confidence=setting.confidence,
        dim=setting.null.dim,
        num_included=scores.num_included,
        num_excluded=scores.num_excluded,
        roc=roc_summary(scores, setting.confidence) if both else None,
        estimates=tuple(estimates),
        left_out=left_out,
    )
