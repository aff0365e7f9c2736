"""The cells of tables: numbers over the runs of a setting as text."""

import math
from collections.abc import Callable

from fl_audit.comparison.comparison import Comparison
from fl_audit.comparison.reported_run import Party
from fl_audit.comparison.settings import Setting
from fl_audit.comparison.spread import Spread
from fl_audit.number_words import epsilon_text, significant
from fl_audit.report.method_table import estimate_cell

LEFT_OUT = "–"


def rounds_text(number: float) -> str:
    """A mean number of rounds, without decimals where it is whole.

    >>> [rounds_text(number) for number in (1.0, 6.667, 12.3, 340.0)]
    ['1', '6.7', '12', '340']
    """
    is_whole = abs(number - round(number)) < 0.05
    return f"{number:.0f}" if is_whole else significant(number, 2)


def rounds_words(setting: Setting) -> str:
    """How often a canary of the setting takes part, in words; empty where it is not known."""
    if setting.presentations is None:
        return ""
    text = rounds_text(setting.presentations.mean)
    return f"{text} round{'' if text == '1' else 's'} per canary"


def accuracy_cell(setting: Setting) -> str:
    """The accuracy in percent."""
    if setting.accuracy is None:
        return LEFT_OUT
    return _over_runs(setting.accuracy, lambda value: significant(100 * value)) + " %"


def rounds_cell(setting: Setting) -> str:
    """The number of rounds."""
    rounds = setting.runs[0].num_rounds
    return LEFT_OUT if rounds is None else str(rounds)


def cohort_cell(setting: Setting) -> str:
    """The expected number of clients and canaries in a round."""
    spread = setting.denominator
    return LEFT_OUT if spread is None else _over_runs(spread, significant)


def presentations_cell(setting: Setting) -> str:
    """The rounds in which a canary takes part on average."""
    spread = setting.presentations
    return LEFT_OUT if spread is None else _over_runs(spread, rounds_text)


def guarantee_cell(setting: Setting, party: Party) -> str:
    """The analytical epsilon to one party."""
    spread = setting.guarantee(party)
    if spread is None:
        return "none known"
    text = epsilon_text(spread.largest)
    return text if math.isinf(spread.largest) else f"≤ {text}"


def fault_cell(setting: Setting) -> str:
    """What went wrong in the training of the runs, in short."""
    trained = (run.trained for run in setting.runs)
    faults = (fault.name for report in trained if report is not None for fault in report.faults)
    return ", ".join(dict.fromkeys(faults)) or LEFT_OUT


def has_faults(comparison: Comparison) -> bool:
    """Whether the training of any run went wrong."""
    return any(fault_cell(setting) != LEFT_OUT for setting in comparison.settings)


def verdict_cell(setting: Setting) -> str:
    """The verdicts on the claims that the configs of the runs make."""
    said = [
        LEFT_OUT if v is None else f"ε ≤ {v.claimed_epsilon:g}: {v.outcome}"
        for v in (run.report.verdict for run in setting.runs)
    ]
    return "; ".join(
        f"{text} ({number} runs)" if (number := said.count(text)) > 1 else text
        for text in dict.fromkeys(said)
    )


def epsilon_cell(setting: Setting, statistic: str, method: str) -> str:
    """The epsilon by one method on one statistic.

    Several runs are given by their mean, with the smallest and the largest in brackets. A mean of
    lower bounds is no bound, so that it has no sign "≥".
    """
    spread = setting.epsilon(statistic, method)
    if spread is None:
        return LEFT_OUT
    if len(spread.values) > 1:
        return _over_runs(spread, epsilon_text)
    estimate = next(made for run in setting.runs if (made := run.estimate(statistic, method)))
    return estimate_cell(estimate)


def _over_runs(spread: Spread, text: Callable[[float], str]) -> str:
    """A single value, or the mean with the smallest and the largest."""
    if len(set(spread.values)) == 1:
        return text(spread.mean)
    return f"{text(spread.mean)} ({text(spread.smallest)} … {text(spread.largest)})"


def has_repetitions(comparison: Comparison) -> bool:
    """Whether any setting has more than one run."""
    return any(len(setting.runs) > 1 for setting in comparison.settings)


def has_verdicts(comparison: Comparison) -> bool:
    """Whether any run has a verdict on a claim."""
    return any(run.report.verdict is not None for run in comparison.runs)


def title(comparison: Comparison) -> str:
    """The title of a comparison, such as "digits: 3 settings, 5 runs"."""
    of_runs = (run.record and run.record.task for run in comparison.runs)
    tasks = dict.fromkeys(task or "another system" for task in of_runs)
    settings, runs = len(comparison.settings), len(comparison.runs)
    plural = "" if settings == 1 else "s"
    return f"{', '.join(tasks)}: {settings} setting{plural}, {runs} runs"
