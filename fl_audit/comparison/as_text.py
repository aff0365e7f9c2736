"""A comparison as text: the cells of its tables, and its lines for the terminal."""

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence

from fl_audit.comparison.comparison import FRONT_METHOD, SHOWN_METHODS, Comparison
from fl_audit.comparison.ranking import beyond_noise, patterns_of
from fl_audit.comparison.reported_run import PARTIES, Party, ReportedRun
from fl_audit.comparison.settings import Setting, Spread
from fl_audit.estimators.result import estimate_text
from fl_audit.number_words import epsilon_text, significant, upper_bound_text
from fl_audit.report.patterns import rounds_text
from fl_audit.text_table import TextTable

LEFT_OUT = "–"


def accuracy_cell(setting: Setting) -> str:
    """The accuracy in percent."""
    if setting.accuracy is None:
        return LEFT_OUT
    return _over_runs(setting.accuracy, lambda value: significant(100 * value)) + " %"


def participations_cell(setting: Setting) -> str:
    """The mean number of rounds in which a canary participates."""
    spread = setting.participations
    return LEFT_OUT if spread is None else _over_runs(spread, rounds_text)


def _guarantee_cell(setting: Setting, party: Party) -> str:
    """The upper bound from accounting for one party."""
    spread = setting.guarantee(party)
    if spread is None:
        return "none known"
    text = upper_bound_text(spread.largest)
    return text if math.isinf(spread.largest) else f"≤ {text}"


def fault_cell(setting: Setting) -> str:
    """Faults of the runs' training, in short."""
    faults = (fault.name for run in setting.runs for fault in run.report.faults)
    return ", ".join(dict.fromkeys(faults)) or LEFT_OUT


def has_faults(comparison: Comparison) -> bool:
    return any(fault_cell(setting) != LEFT_OUT for setting in comparison.settings)


def verdict_cell(setting: Setting) -> str:
    """The verdicts on the claims that the runs' configs state."""
    texts = [
        f"{v.claim.short}: {v.outcome}" if v is not None and v.claim.is_stated else LEFT_OUT
        for v in (run.report.verdict for run in setting.runs)
    ]
    return "; ".join(
        f"{text} ({number} runs)" if (number := texts.count(text)) > 1 else text
        for text in dict.fromkeys(texts)
    )


def epsilon_cell(setting: Setting, statistic: str, method: str) -> str:
    """The epsilon by one method on one statistic.

    For several runs it is the mean, followed by the smallest and the largest in brackets. A mean of
    lower bounds is not a bound, so it has no sign "≥".
    """
    spread = setting.epsilon(statistic, method)
    if spread is None:
        return LEFT_OUT
    if len(spread.values) > 1:
        return _over_runs(spread, epsilon_text)
    estimate = next(filter(None, (run.estimate(statistic, method) for run in setting.runs)))
    return estimate_text(estimate)


def shown_cells(setting: Setting, statistics: Iterable[str]) -> list[list[str]]:
    """For each statistic, the epsilons by `SHOWN_METHODS`, with `FRONT_METHOD` first."""
    methods = sorted(SHOWN_METHODS, key=lambda method: method != FRONT_METHOD)
    return [[epsilon_cell(setting, name, method) for method in methods] for name in statistics]


def method_cells(settings: Iterable[Setting], statistic: str, method: str) -> list[str]:
    """Each setting's epsilon by one method on one statistic."""
    return [epsilon_cell(setting, statistic, method) for setting in settings]


def _over_runs(spread: Spread, text: Callable[[float], str]) -> str:
    """The value if all are equal, else the mean with the smallest and the largest."""
    if len(set(spread.values)) == 1:
        return text(spread.mean)
    return f"{text(spread.mean)} ({text(spread.smallest)} … {text(spread.largest)})"


def has_repetitions(comparison: Comparison) -> bool:
    """Whether any setting has more than one run."""
    return any(len(setting.runs) > 1 for setting in comparison.settings)


def has_verdicts(comparison: Comparison) -> bool:
    """Whether any run has a verdict on a stated claim."""
    verdicts = (run.report.verdict for run in comparison.runs)
    return any(verdict is not None and verdict.claim.is_stated for verdict in verdicts)


def title(comparison: Comparison) -> str:
    """The title of a comparison, such as "digits: 3 settings, 5 runs"."""
    names = (run.record and run.record.task for run in comparison.runs)
    tasks = dict.fromkeys(task or "another system" for task in names)
    numbers = {"setting": len(comparison.settings), "run": len(comparison.runs)}
    counts = (f"{number} {thing}{'s'[: number != 1]}" for thing, number in numbers.items())
    return f"{', '.join(tasks)}: {', '.join(counts)}"


def brief_lines(comparison: Comparison) -> list[str]:
    """The lines without the tables of estimates: title, answers, warnings, and settings."""
    return [
        title(comparison),
        *(patterns_of(comparison).lines() or textwrap.wrap(beyond_noise(comparison), 100)),
        *(
            line
            for sentence in comparison.warnings
            for line in textwrap.wrap(f"warning: {sentence}", 100, subsequent_indent="  ")
        ),
        "",
        *_settings_table(comparison),
        *_column(comparison, "verdict", verdict_cell if has_verdicts(comparison) else None),
        *_column(comparison, "faults of training", fault_cell if has_faults(comparison) else None),
    ]


def comparison_lines(comparison: Comparison) -> list[str]:
    """All lines for the terminal: `brief_lines`, then the estimates on each statistic."""
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


def _settings_table(comparison: Comparison) -> list[str]:
    head = ["runs", "rounds", "per canary", "cohort", "accuracy"]
    head += [f"ε {party}" for party in shown_parties(comparison)]
    return _table(comparison, "", head, [cells for _, cells in settings_rows(comparison)])


def shown_parties(comparison: Comparison) -> tuple[Party, ...]:
    """The parties with upper bounds in the table of settings.

    A canary's upper bound is left out if the table of patterns has it.
    """
    return ("client",) if patterns_of(comparison).attackers else PARTIES


def settings_rows(comparison: Comparison) -> list[tuple[Setting, list[str]]]:
    """Each setting's runs, rounds, rounds of a canary, cohort, accuracy and upper bounds."""
    parties = shown_parties(comparison)
    rows = []
    for setting in comparison.settings:
        cohort = setting.denominator
        cells = [
            str(len(setting.runs)),
            ", ".join(dict.fromkeys(map(_rounds, setting.runs))),
            participations_cell(setting),
            LEFT_OUT if cohort is None else _over_runs(cohort, significant),
            accuracy_cell(setting),
            *(_guarantee_cell(setting, party) for party in parties),
        ]
        rows.append((setting, cells))
    return rows


def _rounds(run: ReportedRun) -> str:
    """The number of rounds; for a stopped run such as "3 of 8"."""
    record, rounds = run.record, run.report.num_rounds
    if record is None or record.stopped_after is None:
        return LEFT_OUT if rounds is None else str(rounds)
    return f"{record.rounds_done} of {rounds}"


def _column(comparison: Comparison, head: str, cell: Callable[[Setting], str] | None) -> list[str]:
    """A table of one column; empty if `cell` is None."""
    if cell is None:
        return []
    rows = [(cell(setting),) for setting in comparison.settings]
    return ["", *_table(comparison, "", (head,), rows)]


def _statistic_table(comparison: Comparison, statistic: str) -> list[str]:
    front = comparison.front(statistic, FRONT_METHOD)
    rows = [
        (
            *(epsilon_cell(setting, statistic, method) for method in SHOWN_METHODS),
            "*" if setting in front else "",
        )
        for setting in comparison.settings
    ]
    lines = _table(comparison, statistic, (*SHOWN_METHODS, ""), rows)
    return [line.rstrip() for line in lines]


def _table(
    comparison: Comparison, name: str, head: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[str]:
    """A table with a row per setting; the label column is equally wide in all tables."""
    labels = [setting.label for setting in comparison.settings]
    width = max(map(len, (*comparison.statistics, *labels)))
    labelled = [(label, *cells) for label, cells in zip(labels, rows, strict=True)]
    return TextTable((f"{name:<{width}}", *head), labelled).lines()


def _explanation(comparison: Comparison) -> list[str]:
    lines = [
        "per canary: mean number of rounds in which a canary participates. cohort: expected",
        "clients and canaries per round. ε client, ε canary: upper bounds from accounting.",
        "threshold_valid, one_run_valid: lower bounds; each holds at its confidence by itself.",
        "shift_fit: an estimate, not a bound.",
        "*: on the Pareto front: no setting of at least this accuracy has a smaller",
        f"{FRONT_METHOD}, with intervals that do not overlap.",
    ]
    if has_repetitions(comparison):
        lines.append("mean (smallest … largest) over runs; a mean of bounds is not a bound.")
    return lines
