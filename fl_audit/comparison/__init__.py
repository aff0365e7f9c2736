r"""Comparison of finished runs: participation patterns, noise levels, seeds.

A folder is of a run (`fl-audit run`), or holds a log or the scores of another system:

>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np
>>> folder, random = Path(tempfile.mkdtemp()), np.random.default_rng(1)
>>> for run, shift in (("old", 1.0), ("new", 2.5)):
...     (folder / run).mkdir()
...     rows = (f"c{i},{i % 2},{random.normal(i % 2 * shift, 1)}" for i in range(200))
...     scores = "\n".join(["canary_id,included,score", *rows])
...     _ = (folder / run / "scores_sum.csv").write_text(scores)
>>> comparison = compare([folder / "old", folder / "new"], delta=1e-5)
>>> for setting in comparison.settings:
...     print(Path(setting.label).name, round(setting.epsilon("sum", "one_run_valid").mean, 2))
old 1.05
new 3.62

`comparison_lines` gives text, `render_comparison` a page, and `csv_text` and `latex_table` tables
for other programs. No module here imports TensorFlow.
"""

from typing import TYPE_CHECKING

from fl_audit.comparison.as_text import comparison_lines
from fl_audit.comparison.comparison import (
    Comparison,
    compare,
    comparison_json,
    comparison_of,
)
from fl_audit.comparison.exports import csv_text, latex_table
from fl_audit.comparison.no_worse import Difference, difference_to_last
from fl_audit.comparison.reported_run import ReportedRun, read_report, read_reported_runs
from fl_audit.public_names import imported_when_used

if TYPE_CHECKING:
    from fl_audit.comparison.as_page import render_comparison as render_comparison

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

__getattr__ = imported_when_used(__name__, {"render_comparison": "as_page"})
"""Only a page needs Jinja and Matplotlib."""
