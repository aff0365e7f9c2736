r"""A comparison for other programs: rows as CSV, and a table in LaTeX.

>>> latex_text("noise_multiplier 0.1, ε ≤ 50 %")
'noise\\_multiplier 0.1, $\\varepsilon$ $\\le$ 50 \\%'
"""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from fl_audit.attacks.threat_models import title_of
from fl_audit.comparison.as_text import LEFT_OUT, accuracy_cell, participations_cell
from fl_audit.comparison.comparison import Comparison
from fl_audit.comparison.settings import Setting
from fl_audit.errors import visible
from fl_audit.estimators.result import Record
from fl_audit.number_words import epsilon_text, lower_bound_text, upper_bound_text
from fl_audit.report.headline import BOUNDS, ESTIMATE, Headline


def csv_text(rows: Sequence[Record]) -> str:
    r"""Rows as CSV with a header; numbers with all digits, None as an empty cell.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.

    >>> csv_text([{"run": "a", "epsilon": float("inf")}, {"run": "b", "lower": 0.5}])
    'run,epsilon,lower\na,inf,\nb,,0.5\n'
    >>> csv_text([{"run": "=1+1", "epsilon": -0.5}])
    "run,epsilon\n'=1+1,-0.5\n"
    """
    columns = dict.fromkeys(column for row in rows for column in row)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A value; text has control characters escaped, and is no formula to a spreadsheet."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


_HEAD = (
    " & Rounds & & \\multicolumn{2}{c}{$\\varepsilon$ by accounting} & & & \\\\",
    "\\cmidrule(lr){4-5}",
    "Setting & per canary & Accuracy & client & canary & Statistic & Lower bound & Estimate \\\\",
)


_RULES = (
    f"Lower bound: the first of {', '.join(BOUNDS)} that applies; each holds at the confidence by "
    "itself. ",
    f"Estimate: {ESTIMATE} with its interval, capped at an upper bound inside the interval. ",
    "Several seeds: the smallest bound, the mean estimate, an interval that covers the intervals "
    "of all seeds.",
)
"""The meaning of the numbers in the LaTeX table."""


def latex_table(comparison: Comparison) -> str:
    """A `tabular` for LaTeX's package booktabs, with a row per setting and statistic.

    Several runs of a setting share a row, as on the page: the smallest of their lower bounds, and
    the mean of their estimates, with an interval that covers the intervals of all.
    """
    delta, confidence = _the_only(comparison, "delta"), _the_only(comparison, "confidence")
    lines = [
        f"% fl-audit compare: delta {delta}, confidence {confidence}; \\usepackage{{booktabs}}",
        *(f"% {latex_text(sentence)}" for sentence in (*_RULES, *comparison.warnings)),
        "\\begin{tabular}{lrrrrlrr}",
        "\\toprule",
        *_HEAD,
    ]
    for setting in comparison.settings:
        lines += ["\\midrule", *_latex_rows(comparison, setting)]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _the_only(comparison: Comparison, name: str) -> str:
    values = dict.fromkeys(f"{getattr(run.report, name):g}" for run in comparison.runs)
    return " and ".join(values)


def _latex_rows(comparison: Comparison, setting: Setting) -> Iterator[str]:
    client, canary = setting.guarantee("client"), setting.guarantee("canary")
    start = [
        setting.label,
        participations_cell(setting),
        accuracy_cell(setting),
        *(LEFT_OUT if s is None else upper_bound_text(s.largest) for s in (client, canary)),
    ]
    headlines = {name: setting.headline(name) for name in comparison.statistics}
    numbers = [
        (title_of(name), *_numbers(headline))
        for name, headline in headlines.items()
        if headline is not None
    ]
    for number, cells in enumerate(numbers or [(LEFT_OUT,) * 3]):
        labels = start if number == 0 else [""] * len(start)
        yield " & ".join(map(latex_text, (*labels, *cells))) + " \\\\"


def _numbers(headline: Headline) -> tuple[str, str]:
    """The lower bound and the estimate of one statistic, as on a run's page."""
    bound = (
        LEFT_OUT if headline.lower_bound is None else lower_bound_text(headline.lower_bound.epsilon)
    )
    within, ends = headline.estimate_within(), headline.interval_within()
    if within is None:
        return bound, LEFT_OUT
    if ends is None:
        return bound, epsilon_text(within)
    return bound, f"{epsilon_text(within)} ({' to '.join(map(epsilon_text, ends))})"


_LATEX = str.maketrans(
    {
        "\\": "\\textbackslash{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "≤": "$\\le$",
        "≥": "$\\ge$",
        "×": "$\\times$",
        "∞": "$\\infty$",
        "ε": "$\\varepsilon$",
        "δ": "$\\delta$",
        "−": "$-$",
        "–": "--",
        "…": "to",
        "“": "``",
        "”": "''",
        **{
            sign: f"$^{{{digit}}}$"
            for sign, digit in zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True)
        },
    }
)


def latex_text(text: str) -> str:
    """Escapes LaTeX special characters, and control characters."""
    return visible(text).translate(_LATEX)
