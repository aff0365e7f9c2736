"""The findings of a report in three sentences."""

import math
from collections.abc import Mapping, Sequence

from fl_audit.number_words import epsilon_text, ordinal, significant
from fl_audit.report.folder_report import FolderReport
from fl_audit.report.headline import ESTIMATE
from fl_audit.report.model import Report


def findings(report: Report | FolderReport) -> list[str]:
    """Three sentences: what the attackers saw, what is proven, and what the noise guarantees."""
    headlines = _headlines(report)
    fits = [report.statistics[name].epsilon_by(ESTIMATE) for name in headlines.values()]
    canary = client = None
    if isinstance(report, Report):
        canary, client = report.analytical.canary.epsilon, report.analytical.client.epsilon
    return [
        _seen(report, headlines, fits),
        _proven(report, list(headlines.values())),
        _guarantee(canary, client) + _comparison(fits, canary, client),
    ]


def _headlines(report: Report | FolderReport) -> dict[str, str]:
    """The first statistic of each threat model, by threat model.

    The final model alone is left out where an attacker knows the initial one too.
    """
    first: dict[str, str] = {}
    for name, statistic in report.statistics.items():
        first.setdefault(statistic.threat_model, name)
    if "final_and_initial" in first:
        first.pop("final", None)
    return first


def _seen(
    report: Report | FolderReport, headlines: Mapping[str, str], fits: Sequence[float | None]
) -> str:
    sees = [report.threat_models[model].sees for model in headlines]
    learns = [
        f"{_epsilon('≈', fit)}{_absences(report, model)}"
        for model, fit in zip(headlines, fits, strict=True)
    ]
    start = (
        f"An attacker who sees {sees[0]} learns about a canary as much as {learns[0]} allows "
        f"(δ = {significant(report.delta)})"
    )
    others = [
        f"one who sees {seen}, as much as {learned}"
        for seen, learned in zip(sees[1:], learns[1:], strict=True)
    ]
    return "; ".join([start, *others]) + "."


def _absences(report: Report | FolderReport, threat_model: str) -> str:
    """The remark on an estimate from a part of the rounds, where not all canaries took part."""
    if isinstance(report, FolderReport):
        return ""  # it does not know who took part when
    model, run = report.threat_models[threat_model], report.run
    num_rounds = model.last_round - model.first_round + 1
    present = model.num_included_in_rounds
    if num_rounds == run.rounds or present == run.num_included:
        return ""
    return f" (fitted to {run.num_included:,} canaries, of which {present:,} took part then)"


def _proven(report: Report | FolderReport, headlines: Sequence[str]) -> str:
    """The lower bounds that are valid although their threshold is chosen on the data."""
    found = [report.statistics[name].epsilon_by("threshold_valid") for name in headlines]
    bounds = [_epsilon("≥", epsilon) for epsilon in found]
    confidence = f"{100 * report.confidence:g}"
    if len(bounds) == 1:
        return (
            f"With {confidence} % confidence, {bounds[0]}: this bound holds, the estimate may not."
        )
    parts = [f"{bound} for the {ordinal(number)}" for number, bound in enumerate(bounds, 1)]
    return (
        f"With {confidence} % confidence each, {', '.join(parts[:-1])} and {parts[-1]}: these "
        "bounds hold, the estimates may not."
    )


def _epsilon(relation: str, value: float | None) -> str:
    """An epsilon with its relation, such as "ε ≤ 4.50", without a place for a line break."""
    return f"ε\N{NO-BREAK SPACE}{relation}\N{NO-BREAK SPACE}{epsilon_text(value)}"


def _guarantee(canary: float | None, client: float | None) -> str:
    if canary is None or client is None:
        return "What the noise guarantees against any attacker is not known for this run"
    if math.isinf(canary):
        return "No noise was added, so that nothing is guaranteed against a stronger attacker"
    if canary == client:
        return f"Against any attacker, the noise guarantees {_epsilon('≤', canary)}"
    return (
        f"Against any attacker, the noise guarantees {_epsilon('≤', canary)} to a canary and "
        f"{_epsilon('≤', client)} to a real client"
    )


def _comparison(
    estimates: Sequence[float | None], canary: float | None, client: float | None
) -> str:
    """How the estimates, which are about canaries, compare with the guarantee to a canary."""
    if canary is None or client is None or math.isinf(canary):
        return "."
    if any(value > canary for value in estimates if value is not None):
        return (
            "; an estimate above the canary’s is chance, noise that is not Gaussian, or a "
            "fault in the training."
        )
    return "; what lies between is room for a better attack."
