"""A report as a notebook shows it, and as rows of a data frame."""

from html import escape

from fl_audit.estimators.records import Record
from fl_audit.report.headline import headline
from fl_audit.report.model import Report
from fl_audit.report.summary import answer_lines, brief_lines


def report_html(report: Report) -> str:
    """The lines with which `fl-audit run` ends, in HTML."""
    lines = [*answer_lines(headline(report)), *brief_lines(report)]
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def report_records(report: Report) -> list[Record]:
    """A row for each statistic and method, without words; infinities are floats."""
    return [
        {
            "statistic": name,
            "threat_model": made.threat_model,
            "method": estimate.method,
            "kind": estimate.kind,
            "epsilon": estimate.epsilon,
            "lower": estimate.lower,
            "upper": estimate.upper,
            "valid_for": estimate.details.valid_for,
            "delta": report.delta,
            "confidence": report.confidence,
        }
        for name, made in report.statistics.items()
        for estimate in made.estimates
    ]
