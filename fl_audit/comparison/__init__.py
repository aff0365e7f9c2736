"""Comparison of finished runs: participation patterns, noise levels, seeds.

It reads report.json of each run and nothing else; nothing here imports TensorFlow.
"""

from fl_audit.comparison.comparison import Comparison, compare, comparison_json
from fl_audit.comparison.page import render_comparison
from fl_audit.comparison.reported_run import ReportedRun, read_report
from fl_audit.comparison.tables import comparison_lines

__all__ = [
    "Comparison",
    "ReportedRun",
    "compare",
    "comparison_json",
    "comparison_lines",
    "read_report",
    "render_comparison",
]
