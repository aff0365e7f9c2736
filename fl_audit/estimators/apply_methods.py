"""Privacy estimates from canary scores, by all methods or by chosen ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fl_audit.errors import InputError, nearest
from fl_audit.estimators.methods import METHODS
from fl_audit.estimators.null import Null, NullKind, NullTail
from fl_audit.estimators.result import Estimate, Record, data_frame, html_table
from fl_audit.estimators.roc import RocSummary, roc_summary
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting, NotApplicableError
from fl_audit.json_records import UNWRITTEN, fields_to_json


@dataclass(frozen=True)
class AuditResult:
    """The estimates from one set of canary scores.

    Attributes:
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of every bound, in (0, 1).
      dim: Number of trainable parameters; None if not known.
      num_included: Number of canaries that participated in training.
      num_excluded: Number of canaries that did not.
      roc: AUC and true positive rates of the scores; None without scores of either kind.
      estimates: One estimate per method, in the order of the methods.
      left_out: Default methods that these scores do not allow, each with the reason.
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
        """The rows of `records` as a `pandas.DataFrame`.

        Raises:
          InputError: pandas is not installed.
        """
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
      dim: Number of trainable parameters, at least 2, if scores are cosines. The closed-form null
        for that dimension is then assumed, and tested on the excluded scores.
      confidence: Confidence of every bound, in (0, 1).
      methods: Names of methods in METHODS; by default all that these scores allow.
      null: The null distribution, if the program that drew and scored the canaries knows it;
        leave out dim and null_tail then. Or its kind alone, "closed_form" or "empirical"; by
        default closed_form if dim is given.
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
        raise InputError("null says dim and null_tail; leave these out")
    return null


def reasons(left_out: Mapping[str, str]) -> list[str]:
    """Each reason once, after the methods that were left out for it.

    >>> reasons({"a": "needs more", "b": "needs more", "c": "needs dim"})
    ['a, b: needs more', 'c: needs dim']
    """
    methods: dict[str, list[str]] = {}
    for method, reason in left_out.items():
        methods.setdefault(reason, []).append(method)
    return [f"{', '.join(names)}: {reason}" for reason, names in methods.items()]


def known_methods(methods: Sequence[str]) -> Sequence[str]:
    """The method names; raises InputError if there is none, or one is unknown."""
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
