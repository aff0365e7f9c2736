"""The report of a finished run: report.json for programs, report.html for people.

Nothing here imports TensorFlow: a run folder can be reported on anywhere.
"""

from fl_audit.report.model import Report
from fl_audit.report.report_json import report_from_json, report_to_json
from fl_audit.report.summary import summary_lines
from fl_audit.report.write import write_report

__all__ = ["Report", "report_from_json", "report_to_json", "summary_lines", "write_report"]
