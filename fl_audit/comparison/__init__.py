r"""Comparison of finished runs: participation patterns, noise levels, seeds.

  from fl_audit.comparison import compare, comparison_lines, render_comparison

  comparison = compare([Path("runs/shuffle"), Path("runs/bernoulli")])
  print("\n".join(comparison_lines(comparison)))
  Path("compare.html").write_text(render_comparison(comparison))

A comparison reads report.json and canaries.csv of each run; no module here imports TensorFlow.
"""

from fl_audit.comparison.comparison import (
    Comparison,
    compare,
    comparison_json,
    comparison_of,
)
from fl_audit.comparison.exports import csv_text, latex_table
from fl_audit.comparison.no_worse import Difference, difference_to_last
from fl_audit.comparison.page import render_comparison
from fl_audit.comparison.reported_run import ReportedRun, read_report, read_reported_runs
from fl_audit.comparison.tables import comparison_lines

__all__ = [
    "Comparison",
    "Difference",
    "ReportedRun",
    "compare",
    "comparison_json",
    "comparison_lines",
    "comparison_of",
    "csv_text",
    "difference_to_last",
    "latex_table",
    "read_report",
    "read_reported_runs",
    "render_comparison",
]
