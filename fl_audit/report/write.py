"""Writing of a run folder's two reports, and the page of any other audit."""

import dataclasses
import json

import msgspec

from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import write_text
from fl_audit.report.audited_folder import AuditedFolder
from fl_audit.report.document import build_report
from fl_audit.report.finished_run import read_finished_run
from fl_audit.report.folder_report import FolderReport
from fl_audit.report.html import render_folder_html, render_html
from fl_audit.report.model import Report
from fl_audit.report.report_json import report_to_json


def write_report(folder: RunFolder) -> Report:
    """Writes report.html and then report.json, whose presence means that a run is finished.

    The same run folder gives the same bytes.

    Args:
      folder: The folder of a run that training has completed.

    Returns:
      The report that both files are made from.

    Raises:
      InputError: A file of the run is missing or damaged, or two of them contradict each other.
    """
    run = read_finished_run(folder)
    report = build_report(run)
    scored = [run.scored(statistic) for statistic in run.statistics]
    fields = report_to_json(report)
    try:
        text = json.dumps(fields, indent=2, allow_nan=False)
    except ValueError as error:
        raise InputError(f"{folder.record}: holds a number that is not finite") from error
    write_text(folder.report_html, render_html(report, run, scored))
    write_text(folder.report_json, text + "\n")
    return report


def render_estimates(source: AuditedFolder, estimated: FolderReport) -> str:
    """The page of estimates from a folder or file: a finished run's has all that the run knows.

    Args:
      source: The folder; or a file, in which no run is found.
      estimated: The estimates from it.

    Raises:
      InputError: The folder is that of a finished run, and one of its files is damaged.
    """
    is_reported = RunFolder(source.path).report_json.exists()
    run = source.run if is_reported else None
    if run is None:
        command = f"fl-audit estimate {source.path} --delta {estimated.delta:g}"
        return render_folder_html(estimated, command)
    config = run.config
    audit = msgspec.structs.replace(config.audit, confidence=estimated.confidence)
    as_asked = dataclasses.replace(
        run,
        record=dataclasses.replace(run.record, delta=estimated.delta),
        config=msgspec.structs.replace(config, audit=audit),
    )
    return render_html(build_report(as_asked, estimated), run, estimated.scored)
