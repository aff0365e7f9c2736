r"""Reports of audits: report.json for programs, report.html for people.

>>> import json
>>> from pathlib import Path
>>> from fl_audit.report import report_from_json, summary_lines
>>> path = Path("tests/recorded/inputs/runs/noisy/report.json")  # of a finished run
>>> report = report_from_json(json.loads(path.read_text()), str(path))
>>> summary_lines(report)[0]
'37 of 80 canaries included, δ = 0.001, 4 rounds'

No module here imports TensorFlow, so any machine can report on a run folder. The package's names
are imported on first use, because the modules that draw take a second to load.
"""

from typing import TYPE_CHECKING

from fl_audit.public_names import imported_when_used

if TYPE_CHECKING:
    from fl_audit.report.page import write_report as write_report
    from fl_audit.report.report import Report as Report
    from fl_audit.report.report import report_from_json as report_from_json
    from fl_audit.report.report import report_to_json as report_to_json
    from fl_audit.report.terminal import summary_lines as summary_lines

_MODULE_OF = {
    "Report": "report",
    "report_from_json": "report",
    "report_to_json": "report",
    "summary_lines": "terminal",
    "write_report": "page",
}

__all__ = [*_MODULE_OF]  # noqa: PLE0604 - names, each a string


__getattr__ = imported_when_used(__name__, _MODULE_OF, registering=["terminal"])
