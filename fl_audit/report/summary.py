"""A report in a few lines for the terminal."""

from collections.abc import Iterable
from typing import Any

from fl_audit.report.numbers import epsilon_text, significant
from fl_audit.report.tables import method_groups


def summary_lines(report: dict[str, Any]) -> list[str]:
    """The estimates as an aligned table, then accuracy and the analytical epsilon.

    Args:
      report: what report.json holds.
    """
    run = report["run"]
    head = (
        f"{run['num_included']} of {run['num_canaries']} canaries included, "
        f"delta {significant(run['delta'])}, {run['rounds']} rounds"
    )
    accuracy = f"accuracy            {significant(100 * float(report['accuracy']))} % "
    analytical = f"analytical epsilon  {epsilon_text(report['analytical_epsilon'])}"
    return [
        head,
        "",
        *_table(report["statistics"]),
        "",
        f"{accuracy}({run['accuracy_description']})",
        f"{analytical} (what the noise guarantees; estimates may lie far below)",
    ]


def _table(statistics: dict[str, Any]) -> list[str]:
    """A row per method, a column per statistic, in groups of what may be relied on."""
    groups = method_groups(statistics)
    rows = [row for group in groups for row in group.rows]
    first = max(len(row.method) for row in rows) + 2
    widths = [
        max(len(name), *(len(row.epsilons[column]) for row in rows))
        for column, name in enumerate(statistics)
    ]

    def line(start: str, cells: Iterable[str]) -> str:
        right = (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        return f"{start:<{first}}  " + "  ".join(right)

    lines = [line("", statistics)]
    for group in groups:
        lines += [
            group.title[0].lower() + group.title[1:],
            *(line(f"  {r.method}", r.epsilons) for r in group.rows),
        ]
    return lines
