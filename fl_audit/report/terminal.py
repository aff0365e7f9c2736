"""A report for the terminal and for notebooks: the answer in a few lines, estimates in tables."""

import dataclasses
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from fl_audit.checks.canary_check import Arrival
from fl_audit.estimators.result import Record
from fl_audit.number_words import significant, upper_bound_text
from fl_audit.report.checks import checks_words
from fl_audit.report.headline import Headline, headline
from fl_audit.report.report import AnalyticalReport, ArrivalReport, Report, StatisticReport
from fl_audit.report.tables import GroupRows, group_rows, refuted_rows
from fl_audit.report.words import rounds_done

_GAP = 2
"""Spaces between columns."""


def answer_lines(found: Headline, width: int = 100) -> list[str]:
    """The answer of an audit: three numbers, and one sentence.

    Args:
      found: The headline of the audit.
      width: Number of characters that a line may have; fewer than 40 count as 40.
    """
    indented = [
        textwrap.wrap(line, max(width, 40), subsequent_indent=" " * 12, break_on_hyphens=False)
        for line in found.lines()
    ]
    return [part for parts in indented for part in parts]


def brief_lines(report: Report) -> list[str]:
    """What ran, and whether the checks of the mechanism passed."""
    accuracy = f"accuracy {significant(100 * report.run.accuracy)} %"
    checks = f"checks      {checks_words(report.checks)}"
    return [f"{_head(report)}, {accuracy}", checks, *_arrival(report.arrival, 12)]


def summary_lines(report: Report, width: int = 100) -> list[str]:
    """All estimates as aligned tables, then accuracy and the analytical epsilon.

    Args:
      report: The report of a run.
      width: Number of characters that a line may have; where the statistics need more, they are in
        several tables one below the other.
    """
    run = report.run
    accuracy = f"accuracy            {significant(100 * run.accuracy)} % "
    return [
        _head(report),
        *_tables(report.statistics, width),
        "",
        f"{accuracy}({run.accuracy_description})",
        f"analytical epsilon  {_analytical(report.analytical)}",
        f"checks              {checks_words(report.checks)}",
        *_arrival(report.arrival, 20),
        *_absences(report),
        *(f"fault of training   {fault.name}: {fault.words}" for fault in report.faults),
        *(f"{row.statistic}: {row.reason}" for row in refuted_rows(report.statistics)),
    ]


def _head(report: Report) -> str:
    run = report.run
    return (
        f"{run.num_included} of {run.num_canaries} canaries included, "
        f"delta {significant(run.delta)}, {rounds_done(run)}"
    )


def _analytical(analytical: AnalyticalReport) -> str:
    if analytical.epsilon is not None:
        epsilon = upper_bound_text(analytical.epsilon)
        return f"{epsilon} (what the noise guarantees; estimates may lie far below)"
    parties = (analytical.client, analytical.canary)
    unknown = next(party for party in parties if party.epsilon is None)
    return f"none known ({unknown.by_accountant[0].reason})"


def _arrival(arrival: ArrivalReport | None, indent: int) -> list[str]:
    """What became of included canaries, behind a label of so many characters."""
    return [] if arrival is None else [f"{'canaries':<{indent}}{arrival_words(arrival)}"]


def arrival_words(arrival: ArrivalReport | Arrival) -> str:
    """What became of included canaries, in a few words, and any fault and gap."""
    if arrival.state == "arrived":
        of_client = f", {arrival.ratio or 0:.2f} times as long as a client may be"
        ratio = "" if arrival.ratio is None else of_client
        fault = "" if arrival.fault is None else f"; FAULT: {arrival.fault}"
        return f"arrived{ratio}{_unscored(arrival)}{fault}"
    words = "DID NOT ARRIVE" if arrival.state == "not_arrived" else "cannot be seen to arrive"
    return f"{words}: {arrival.reason}"


def _unscored(arrival: ArrivalReport | Arrival) -> str:
    """How many included canaries have a scored round, where some have none; else empty."""
    scored, included = arrival.num_scored, arrival.num_included
    if scored is None or included is None or scored == included:
        return ""
    return f"; {scored:,} of {included:,} included canaries have a scored round"


def _absences(report: Report) -> list[str]:
    """A line for each threat model whose attacker does not see the rounds of every canary."""
    num_included = report.run.num_included
    return [
        f"{name}: {model.num_included_in_rounds} of {num_included} included canaries took part "
        f"in {_rounds(model.first_round, model.last_round)}"
        for name, model in report.threat_models.items()
        if model.num_included_in_rounds < num_included
    ]


def _rounds(first: int, last: int) -> str:
    return f"round {first}" if first == last else f"rounds {first} to {last}"


def _tables(statistics: Mapping[str, StatisticReport], width: int) -> list[str]:
    """The tables: a row per method in its group, a column per statistic; none without canaries."""
    if not statistics:
        return []
    groups = group_rows(statistics)
    first = max(len(row.method) for group in groups for row in group.rows) + 2 + _GAP
    threat_models = [_ThreatModel.of(name, statistics, groups) for name in _names(statistics)]
    return [
        line
        for table in _packed(threat_models, width - first)
        for line in ("", *_table(table, groups, first))
    ]


@dataclass(frozen=True)
class _Column:
    """The column of a statistic: its index in a row, and its width in characters."""

    name: str
    index: int
    width: int


@dataclass(frozen=True)
class _ThreatModel:
    """The columns of one threat model."""

    name: str
    columns: tuple[_Column, ...]

    @classmethod
    def of(
        cls, name: str, statistics: Mapping[str, StatisticReport], groups: Sequence[GroupRows]
    ) -> "_ThreatModel":
        """The columns of the statistics that belong to one threat model."""
        columns = [
            _Column(statistic, index, max(len(statistic), *_cell_widths(groups, index)))
            for index, statistic in enumerate(statistics)
            if statistics[statistic].threat_model == name
        ]
        lacking = len(name) - _width(columns)
        if lacking > 0:
            last = columns[-1]
            columns[-1] = dataclasses.replace(last, width=last.width + lacking)
        return cls(name, tuple(columns))


def _names(statistics: Mapping[str, StatisticReport]) -> list[str]:
    """The names of the threat models, in the order of their first statistic."""
    return list(dict.fromkeys(statistic.threat_model for statistic in statistics.values()))


def _cell_widths(groups: Sequence[GroupRows], index: int) -> list[int]:
    return [len(row.epsilons[index]) for group in groups for row in group.rows]


def _width(columns: Iterable[_Column]) -> int:
    """Width of some columns with the gaps between them."""
    return sum(column.width + _GAP for column in columns) - _GAP


def _packed(threat_models: Sequence[_ThreatModel], width: int) -> Iterator[list[_ThreatModel]]:
    """The threat models by table, each filled to `width`; a table has one at least."""
    table: list[_ThreatModel] = []
    for model in threat_models:
        columns = [column for one in (*table, model) for column in one.columns]
        if table and _width(columns) > width:
            yield table
            table = []
        table = [*table, model]
    yield table


def _table(
    threat_models: Sequence[_ThreatModel], groups: Sequence[GroupRows], first: int
) -> list[str]:
    columns = [column for model in threat_models for column in model.columns]
    gap = " " * _GAP

    def line(start: str, cells: Iterable[str], widths: Iterable[int]) -> str:
        right = (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        return f"{start:<{first}}" + gap.join(right)

    widths = [column.width for column in columns]
    spans = [_width(model.columns) for model in threat_models]
    lines = [
        line("threat model", (model.name for model in threat_models), spans),
        line("statistic", (column.name for column in columns), widths),
    ]
    for group in groups:
        lines.append(group.title[0].lower() + group.title[1:])
        for row in group.rows:
            cells = (row.epsilons[column.index] for column in columns)
            lines.append(line(f"  {row.method}", cells, widths))
    return lines


def report_html(report: Report) -> str:
    """The lines with which `fl-audit run` ends, in HTML."""
    lines = [*answer_lines(headline(report)), *brief_lines(report)]
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def report_records(report: Report) -> list[Record]:
    """A row for each statistic and method, without words; infinities are floats."""
    return [
        {
            "statistic": name,
            "threat_model": made.threat_model,
            "method": estimate.method,
            "kind": estimate.kind,
            "epsilon": estimate.epsilon,
            "lower": estimate.lower,
            "upper": estimate.upper,
            "valid_for": estimate.details.valid_for,
            "delta": report.delta,
            "confidence": report.confidence,
        }
        for name, made in report.statistics.items()
        for estimate in made.estimates
    ]
