"""A report in a few lines for the terminal."""

from typing import Any

from fl_audit.report.numbers import epsilon_text, significant


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
    """A row per statistic and method."""
    rows = [("statistic", "method", "kind", "epsilon")]
    for name, statistic in statistics.items():
        for estimate in statistic["estimates"]:
            epsilon = epsilon_text(estimate["epsilon"])
            kind = estimate["kind"].replace("_", " ")
            rows.append((name, estimate["method"], kind, epsilon))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:<{widths[2]}}  "
        f"{row[3]:>{widths[3]}}"
        for row in rows
    ]
