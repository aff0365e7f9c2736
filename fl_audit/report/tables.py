"""The report's tables as rows of text, ready for a template."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fl_audit.attacks.statistics import title_of
from fl_audit.estimators.method_groups import METHOD_GROUPS
from fl_audit.number_words import count, epsilon_text, significant
from fl_audit.report.words import ACCOUNTANT_TITLES


@dataclass(frozen=True)
class Note:
    """What a number guarantees, assumes or stems from."""

    label: str
    text: str


@dataclass(frozen=True)
class MethodRow:
    """One method on every statistic.

    Attributes:
      method: its name.
      epsilons: one per statistic, "–" where the method was left out.
      notes: what the numbers guarantee, assume and stem from.
    """

    method: str
    epsilons: tuple[str, ...]
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class GroupRows:
    """The rows of methods whose numbers may be relied on to the same degree."""

    title: str
    meaning: str
    rows: tuple[MethodRow, ...]


def method_groups(statistics: Mapping[str, Any]) -> list[GroupRows]:
    """The methods, from what may be relied on to what is only an estimate."""
    found = {
        estimate["method"]: estimate
        for statistic in statistics.values()
        for estimate in statistic["estimates"]
    }
    groups = []
    for group in METHOD_GROUPS:
        rows = [_method_row(name, statistics) for name, made in found.items() if made in group]
        if rows:
            groups.append(GroupRows(group.title, group.meaning, tuple(rows)))
    return groups


def _method_row(method: str, statistics: Mapping[str, Any]) -> MethodRow:
    found = {
        name: estimate
        for name, statistic in statistics.items()
        for estimate in statistic["estimates"]
        if estimate["method"] == method
    }
    epsilons = tuple(_epsilon(found[name]) if name in found else "–" for name in statistics)
    left_out = {
        name: statistic["left_out"][method]
        for name, statistic in statistics.items()
        if method in statistic["left_out"]
    }
    texts = (
        ("Guarantee", {name: e["details"]["guarantee"] for name, e in found.items()}),
        ("Assumes", {name: e["details"]["assumes"] for name, e in found.items()}),
        ("Source", {name: e["details"]["source"] for name, e in found.items()}),
        ("Left out", left_out),
    )
    notes = [note for label, text in texts for note in _notes(label, text, len(statistics))]
    return MethodRow(method, epsilons, tuple(notes))


def _epsilon(estimate: Mapping[str, Any]) -> str:
    if estimate["kind"] == "lower_bound":
        return f"≥ {epsilon_text(estimate['epsilon'])}"
    if estimate["kind"] == "interval":
        return f"{epsilon_text(estimate['lower'])} … {epsilon_text(estimate['upper'])}"
    return epsilon_text(estimate["epsilon"])


def _notes(label: str, text_by_statistic: Mapping[str, str], num_statistics: int) -> list[Note]:
    """One note per text, with the statistics that it is about unless all share it."""
    titles_by_text: dict[str, list[str]] = {}
    for name, text in text_by_statistic.items():
        titles_by_text.setdefault(text, []).append(title_of(name))
    return [
        Note(
            label if len(titles) == num_statistics else f"{label} ({', '.join(titles)})",
            f"{text.rstrip('.')}.",
        )
        for text, titles in titles_by_text.items()
    ]


@dataclass(frozen=True)
class NoiseRow:
    """What the noise guarantees to somebody."""

    party: str
    epsilon: str


def noise_rows(analytical: Mapping[str, Any]) -> list[NoiseRow]:
    """The analytical epsilon to a canary and to a real client, once where they agree."""
    canary, client = (analytical[key]["epsilon"] for key in ("canary", "client"))
    if canary == client:
        return [NoiseRow("analytical", _upper_bound(canary))]
    return [
        NoiseRow("analytical, to a canary", _upper_bound(canary)),
        NoiseRow("analytical, to a real client", _upper_bound(client)),
    ]


def _upper_bound(epsilon: float | str | None) -> str:
    return "none known" if epsilon is None else f"≤ {epsilon_text(epsilon)}"


@dataclass(frozen=True)
class AttackRow:
    """How well one statistic tells included from excluded canaries."""

    statistic: str
    auc: str
    auc_interval: str
    true_positive_rates: tuple[str, ...]


def attack_rows(statistics: Mapping[str, Any]) -> list[AttackRow]:
    """A row per statistic that has scores of both kinds."""
    return [
        AttackRow(
            statistic=title_of(name),
            auc=significant(roc["auc"]),
            auc_interval=" … ".join(significant(end) for end in roc["auc_interval"]),
            true_positive_rates=tuple(
                f"{significant(100 * point['true_positive_rate'])} %"
                for point in roc["operating_points"]
            ),
        )
        for name, statistic in statistics.items()
        if (roc := statistic["roc"]) is not None
    ]


@dataclass(frozen=True)
class NormalityRow:
    """An Anderson-Darling test."""

    statistic: str
    group: str
    num: int
    value: str
    at_15_percent: str
    at_1_percent: str
    reading: str


def normality_rows(statistics: Mapping[str, Any]) -> list[NormalityRow]:
    """A row per statistic and group of canaries, where the test is defined."""
    return [
        _normality_row(name, group, statistic[f"num_{group}"], test)
        for name, statistic in statistics.items()
        for group, test in statistic["anderson_darling"].items()
        if test is not None
    ]


def _normality_row(name: str, group: str, num: int, test: Mapping[str, Any]) -> NormalityRow:
    value = test["statistic"]
    lenient, strict = test["critical_values"]["0.15"], test["critical_values"]["0.01"]
    if value > strict:
        reading = "not Gaussian (1 %)"
    else:
        reading = "in doubt (15 %)" if value > lenient else "may be Gaussian"
    return NormalityRow(
        statistic=title_of(name),
        group=group,
        num=num,
        value=significant(value),
        at_15_percent=significant(lenient),
        at_1_percent=significant(strict),
        reading=reading,
    )


@dataclass(frozen=True)
class NullRow:
    """A moment of excluded scores beside the null law's."""

    statistic: str
    moment: str
    value: str
    expected: str
    deviation: str


def null_rows(statistics: Mapping[str, Any]) -> list[NullRow]:
    """Mean and variance of excluded scores, for statistics whose null has a closed form."""
    return [
        NullRow(
            statistic=title_of(name),
            moment=moment,
            value=significant(check[moment]),
            expected=f"{significant(check[f'{moment}_expected'])} ± "
            f"{significant(check[f'{moment}_standard_error'], 2)}",
            deviation=_deviation(check, moment),
        )
        for name, statistic in statistics.items()
        if (check := statistic["null_check"]) is not None
        for moment in ("mean", "variance")
    ]


def _deviation(check: Mapping[str, Any], moment: str) -> str:
    """How many standard errors a moment is off."""
    off = check[moment] - check[f"{moment}_expected"]
    return f"{off / check[f'{moment}_standard_error']:+.1f}".replace("-", "−")


@dataclass(frozen=True)
class AccountingRow:
    """Epsilon of one party by one accountant."""

    party: str
    participations: str
    accountant: str
    epsilon: str
    reason: str | None


def accounting_rows(analytical: Mapping[str, Any]) -> list[AccountingRow]:
    """A row per party and accountant."""
    return [
        AccountingRow(
            party=party,
            participations=_participations(analytical[key]["participations"]),
            accountant=ACCOUNTANT_TITLES[by["accountant"]],
            epsilon="–" if by["accountant"] == "none_known" else epsilon_text(by["epsilon"]),
            reason=by["reason"],
        )
        for key, party in (("client", "Real client"), ("canary", "Included canary"))
        for by in analytical[key]["by_accountant"]
    ]


def _participations(number: int | None) -> str:
    return "random" if number is None else count(number, "round")
