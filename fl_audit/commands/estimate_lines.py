"""The lines that `fl-audit estimate` prints without --json."""

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fl_audit.estimators.result import METHOD_GROUPS, MethodGroup
from fl_audit.estimators.threshold.null_choice import refuted_nulls

if TYPE_CHECKING:
    from fl_audit.estimators.audit import AuditResult
    from fl_audit.estimators.result import Estimate
    from fl_audit.estimators.roc import RocSummary

Row = Mapping[str, "Estimate"]
"""The estimates of one method by statistic, without statistics that do not allow the method."""


@dataclass(frozen=True)
class _Group:
    """A group of methods with equally strong guarantees: its heading and a row for each method."""

    heading: Sequence[str]
    rows: Mapping[str, Row]


def file_lines(result: "AuditResult") -> list[str]:
    """The estimates from one file as aligned text, in groups by the strength of guarantee."""
    width = max(len(estimate.method) for estimate in result.estimates)
    lines = [_head(result)]
    for group in _groups({"": result}):
        lines += ["", *group.heading]
        lines += [f"  {name:<{width}}  {_epsilon(row[''])}" for name, row in group.rows.items()]
    if result.roc is not None:
        lines += ["", *_attack(result.roc)]
    reasons = [line for reason in _reasons(result) for line in _wrapped(reason)]
    return lines + ([""] if reasons else []) + reasons


def brief_lines(results: "Mapping[str, AuditResult]") -> list[str]:
    """How many canaries there are, and why a null that was taken to be known is not used."""
    lines = [_head(next(iter(results.values())))]
    for name, result in results.items():
        lines += [line for text in _refuted(result) for line in _wrapped(f"{name}: {text}")]
    return lines


def folder_lines(results: "Mapping[str, AuditResult]") -> list[str]:
    """The estimates from a folder in the same groups, with a column for each statistic."""
    groups = list(_groups(results))
    cells = {
        method: [_short(row[name]) if name in row else "–" for name in results]
        for group in groups
        for method, row in group.rows.items()
    }
    first = max(map(len, cells))
    widths = [max(map(len, column)) for column in zip(results, *cells.values(), strict=True)]

    def line(start: str, row: Iterable[str]) -> str:
        right = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        return f"  {start:<{first}}  " + "  ".join(right)

    lines = [_head(next(iter(results.values()))), "", line("", results)]
    for group in groups:
        lines += ["", *group.heading, *(line(method, cells[method]) for method in group.rows)]
    for name, result in results.items():
        lines += ["", *(line for text in _notes(result) for line in _wrapped(f"{name}: {text}"))]
    return lines


def _room() -> int:
    return max(min(shutil.get_terminal_size((100, 24)).columns, 100), 40)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _room(), break_on_hyphens=False)


def _head(result: "AuditResult") -> str:
    return (
        f"{result.num_included} included and {result.num_excluded} excluded canaries, "
        f"delta {result.delta:g}, confidence {result.confidence:g}"
    )


def _groups(results: "Mapping[str, AuditResult]") -> Iterator[_Group]:
    """The methods of all results in groups, valid bounds first and estimates last."""
    rows: dict[str, dict[str, Estimate]] = {}
    for name, result in results.items():
        for estimate in result.estimates:
            rows.setdefault(estimate.method, {})[name] = estimate
    room = _room()
    for group in METHOD_GROUPS:
        found = {m: row for m, row in rows.items() if _is_of(group, next(iter(row.values())))}
        if found:
            yield _Group([group.title, *textwrap.wrap(group.meaning, room)], found)


def _is_of(group: MethodGroup, estimate: "Estimate") -> bool:
    return group.has(estimate.kind, estimate.valid_for)


def _attack(roc: "RocSummary") -> list[str]:
    """The quality of membership inference with the scores, in two lines."""
    interval = roc.auc_interval
    return [
        f"AUC {roc.auc:.4g} ({interval.lower:.4g} to {interval.upper:.4g}), balanced accuracy of "
        f"the best threshold {roc.balanced_accuracy:.4g}",
        "true positive rate "
        + ", ".join(
            f"{100 * point.true_positive_rate:.3g} % at FPR {100 * point.false_positive_rate:g} %"
            for point in roc.operating_points
        ),
    ]


def _notes(result: "AuditResult") -> list[str]:
    return ([] if result.roc is None else _attack(result.roc)) + _reasons(result)


def _reasons(result: "AuditResult") -> list[str]:
    """The known null laws behind bounds, and why other nulls or methods are not used."""
    return [*_known_null(result), *_refuted(result), *_left_out(result)]


def _known_null(result: "AuditResult") -> list[str]:
    """The known laws of excluded scores that the valid bounds use."""
    bounds = (estimate for estimate in result.estimates if estimate.valid_for is not None)
    laws = (str(e.details["null_law"]) for e in bounds if "null_law" in e.details)
    return [f"known null of the bounds that hold: {law}" for law in dict.fromkeys(laws)]


def _refuted(result: "AuditResult") -> list[str]:
    """Why bounds do not use a null that was taken to be known; each reason once."""
    details = [estimate.details for estimate in result.estimates]
    return [f"empirical null: {why}" for why in refuted_nulls(details)]


def _left_out(result: "AuditResult") -> list[str]:
    from fl_audit.estimators.audit import reasons

    return [f"left out: {reason}" for reason in reasons(result.left_out)]


def _epsilon(estimate: "Estimate") -> str:
    """An epsilon with the sign of a bound or the ends of an interval."""
    if estimate.kind == "lower_bound":
        return f"≥ {estimate.epsilon:.4g}"
    if estimate.kind == "interval":
        return f"  {estimate.epsilon:.4g} ({estimate.lower:.4g} to {estimate.upper:.4g})"
    return f"  {estimate.epsilon:.4g}"


def _short(estimate: "Estimate") -> str:
    """The short form of an epsilon, for a column."""
    if estimate.kind == "lower_bound":
        return f"≥ {estimate.epsilon:.3g}"
    if estimate.kind == "interval":
        return f"{estimate.lower:.3g} … {estimate.upper:.3g}"
    return f"{estimate.epsilon:.3g}"
