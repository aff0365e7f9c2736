"""One finished run as its report.json has it, which is all that a comparison reads of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from fl_audit.errors import InputError
from fl_audit.formats.json_file import decode_json
from fl_audit.formats.run_folder import FORMAT_VERSION, RunFolder
from fl_audit.report.model import Report
from fl_audit.report.report_json import report_from_json
from fl_audit.report.statistic_model import EstimateReport

Party = Literal["client", "canary"]
"""The party that an analytical epsilon is for."""

PARTIES: tuple[Party, ...] = ("client", "canary")


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """A finished run.

    Attributes:
      folder: The run's folder, as it was given.
      report: The report of the run.
      report_json: The object in report.json, unchanged.
      config: The resolved config, a value per `section.key`.
    """

    folder: Path
    report: Report
    report_json: Mapping[str, Any]
    config: Mapping[str, Any]

    def estimate(self, statistic: str, method: str) -> EstimateReport | None:
        """The estimate by a method on a statistic; None where either was left out."""
        found = self.report.statistics.get(statistic)
        return None if found is None else found.estimate_by(method)

    def epsilon(self, statistic: str, method: str) -> float | None:
        """Epsilon by one method; None where it was left out."""
        estimate = self.estimate(statistic, method)
        return None if estimate is None else estimate.epsilon

    def guarantee(self, party: Party) -> float | None:
        """The analytical epsilon to one party; None where none is known."""
        analytical = self.report.analytical
        return (analytical.client if party == "client" else analytical.canary).epsilon


def read_reported_runs(folders: Sequence[Path]) -> list[ReportedRun]:
    """Reads the reports of at least two finished runs.

    Args:
      folders: The folders of the runs.

    Raises:
      InputError: Fewer than two folders are given, one is given twice, or one has no finished run.
    """
    if len(folders) < 2:
        raise InputError(f"compare needs at least two run folders, got {len(folders)}")
    first_by_place: dict[Path, Path] = {}
    for folder in folders:
        first = first_by_place.setdefault(folder.resolve(), folder)
        if first is not folder:
            raise InputError(f"{folder}: is the same folder as {first}; name each run once")
    return [_read(RunFolder(folder)) for folder in folders]


def _read(folder: RunFolder) -> ReportedRun:
    text = _report_text(folder)
    try:
        fields = decode_json(text, dict[str, Any], str(folder.report_json), "the report of a run")
        _check_format(folder, fields)
        report = report_from_json(fields, str(folder.report_json))
    except (msgspec.MsgspecError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder.report_json}: is not the report of a run: {error}") from error
    return ReportedRun(
        folder=folder.path,
        report=report,
        report_json=fields,
        config=_flat(msgspec.to_builtins(report.config)),
    )


def _report_text(folder: RunFolder) -> bytes:
    try:
        return folder.report_json.read_bytes()
    except FileNotFoundError as error:
        raise InputError(_what_lacks(folder)) from error
    except OSError as error:
        raise InputError(f"{folder.report_json}: cannot be read: {error.strerror}") from error


def _what_lacks(folder: RunFolder) -> str:
    if not folder.path.exists():
        return f"{folder.path}: no such folder; name folders that `fl-audit run` has written"
    if folder.config.exists():
        return (
            f"{folder.path}: the run is not finished: it has no {folder.report_json.name}; "
            "continue it with `fl-audit run --resume`"
        )
    return (
        f"{folder.path}: is no run folder: it has no {folder.report_json.name}; "
        "name folders that `fl-audit run` has written"
    )


def _check_format(folder: RunFolder, fields: Mapping[str, Any]) -> None:
    run = fields.get("run")
    version = run.get("format_version") if isinstance(run, Mapping) else None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder.report_json}: format_version of the run is {version!r}, must be "
            f"{FORMAT_VERSION}"
        )


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested tables by `section.key`.

    >>> _flat({"seed": 1, "task": {"kind": "digits"}})
    {'seed': 1, 'task.kind': 'digits'}
    """
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
