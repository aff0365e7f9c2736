"""A comparison as aligned lines for the terminal."""

import textwrap
from collections.abc import Iterable, Sequence

from fl_audit.comparison.cells import (
    accuracy_cell,
    cohort_cell,
    epsilon_cell,
    fault_cell,
    guarantee_cell,
    has_faults,
    has_repetitions,
    has_verdicts,
    presentations_cell,
    rounds_cell,
    title,
    verdict_cell,
)
from fl_audit.comparison.comparison import FRONT_METHOD, SHOWN_METHODS, Comparison
from fl_audit.comparison.order import beyond_noise
from fl_audit.comparison.settings import Setting


def brief_lines(comparison: Comparison) -> list[str]:
    """What differs beyond noise, and the settings with accuracy and analytical epsilon."""
    return [
        title(comparison),
        *textwrap.wrap(beyond_noise(comparison), 100),
        *(
            line
            for sentence in comparison.warnings
            for line in textwrap.wrap(f"warning: {sentence}", 100, subsequent_indent="  ")
        ),
        "",
        *_settings_table(comparison.settings, _label_width(comparison)),
        *_verdicts(comparison),
        *_faults(comparison),
    ]


def comparison_lines(comparison: Comparison) -> list[str]:
    """The same, then the estimates per statistic."""
    return [
        *brief_lines(comparison),
        *(
            line
            for statistic in comparison.statistics
            for line in ("", *_statistic_table(comparison, statistic))
        ),
        "",
        *_explanation(comparison),
    ]


def _label_width(comparison: Comparison) -> int:
    labels = (setting.label for setting in comparison.settings)
    return max(map(len, (*comparison.statistics, *labels)))


def _settings_table(settings: Sequence[Setting], width: int) -> list[str]:
    head = ("runs", "rounds", "of a canary", "cohort", "accuracy", "ε client", "ε canary")
    rows = [
        (
            str(len(setting.runs)),
            rounds_cell(setting),
            presentations_cell(setting),
            cohort_cell(setting),
            accuracy_cell(setting),
            guarantee_cell(setting, "client"),
            guarantee_cell(setting, "canary"),
        )
        for setting in settings
    ]
    return _aligned("", head, settings, rows, width)


def _verdicts(comparison: Comparison) -> list[str]:
    if not has_verdicts(comparison):
        return []
    rows = [(verdict_cell(setting),) for setting in comparison.settings]
    return ["", *_aligned("", ("verdict",), comparison.settings, rows, _label_width(comparison))]


def _faults(comparison: Comparison) -> list[str]:
    if not has_faults(comparison):
        return []
    rows = [(fault_cell(setting),) for setting in comparison.settings]
    head = ("faults of training",)
    return ["", *_aligned("", head, comparison.settings, rows, _label_width(comparison))]


def _statistic_table(comparison: Comparison, statistic: str) -> list[str]:
    settings, width = comparison.settings, _label_width(comparison)
    rows = [[epsilon_cell(s, statistic, method) for method in SHOWN_METHODS] for s in settings]
    lines = _aligned(statistic, SHOWN_METHODS, settings, rows, width)
    front = comparison.front(statistic, FRONT_METHOD)
    marks = ("  *" if setting in front else "" for setting in settings)
    return [lines[0], *(line + mark for line, mark in zip(lines[1:], marks, strict=True))]


def _aligned(
    name: str,
    head: Sequence[str],
    settings: Sequence[Setting],
    rows: Sequence[Sequence[str]],
    width: int,
) -> list[str]:
    """The lines of a table: a head and a line per setting, with columns flush right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(start: str, cells: Iterable[str]) -> str:
        right = (f"{cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
        return f"{start:<{width}}  " + "  ".join(right)

    return [
        line(name, head),
        *(line(s.label, cells) for s, cells in zip(settings, rows, strict=True)),
    ]


def _explanation(comparison: Comparison) -> list[str]:
    lines = [
        "of a canary: rounds in which a canary takes part, on average. cohort: expected clients",
        "and canaries a round. ε client, ε canary: what the noise guarantees against any attacker.",
        "threshold_valid, one_run_valid: lower bounds, each holds at its confidence by itself.",
        "shift_fit: an estimate, no bound.",
        f"*: on the Pareto front: no setting is as accurate whose {FRONT_METHOD} is smaller beyond",
        "noise, by intervals that do not overlap.",
    ]
    if has_repetitions(comparison):
        lines.append("mean (smallest … largest) over runs; a mean of bounds is no bound.")
    return lines
