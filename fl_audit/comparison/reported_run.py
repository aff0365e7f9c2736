"""One finished run as its report.json tells it: all that a comparison reads of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fl_audit.config.file import parse_config
from fl_audit.errors import InputError
from fl_audit.formats.run_folder import FORMAT_VERSION, RunFolder
from fl_audit.report.checks import title_of_check

PARTIES = ("client", "canary")
"""Whom the analytical epsilon is for."""


class Details(msgspec.Struct, frozen=True):
    """Of what a method says about its number, the mechanisms for which it is valid."""

    valid_for: str | None


class Estimate(msgspec.Struct, frozen=True):
    """What one method found on one statistic."""

    method: str
    kind: str
    epsilon: float | str
    lower: float | str | None
    upper: float | str | None
    details: Details


class Statistic(msgspec.Struct, frozen=True):
    """Everything estimated on one statistic."""

    confidence: float
    null: str
    estimates: tuple[Estimate, ...]


class Guarantee(msgspec.Struct, frozen=True):
    """Analytical epsilon to one party; None where none is known."""

    epsilon: float | str | None


class Analytical(msgspec.Struct, frozen=True):
    """What the noise guarantees, and about which neighbours."""

    neighbours: str
    client: Guarantee
    canary: Guarantee


class Record(msgspec.Struct, frozen=True):
    """What the run did, as far as a comparison needs it; see `RunRecord`."""

    format_version: int
    task: str
    dim: int
    num_canaries: int
    rounds: int
    delta: float
    noise_multiplier: float
    denominator: float
    accuracy_description: str


class Verdict(msgspec.Struct, frozen=True):
    """What became of a claim."""

    outcome: str
    claimed_epsilon: float


class _Check(msgspec.Struct, frozen=True):
    name: str
    passed: bool


class _Checks(msgspec.Struct, frozen=True):
    results: list[_Check]


class _Report(msgspec.Struct, frozen=True):
    statistics: dict[str, Statistic]
    analytical: Analytical
    accuracy: float
    verdict: Verdict | None
    run: Record
    config: dict[str, Any]
    fl_audit_version: str
    checks: _Checks = _Checks([])  # which older reports lack


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """A finished run.

    Attributes:
      folder: where it lies, as it was named.
      report: report.json, unchanged.
      config: the resolved config, a value per `section.key`.
      record: what the run did.
      statistics: what was estimated, by statistic.
      analytical: what the noise guarantees.
      accuracy: on held-out data, after the last round.
      verdict: on what was claimed of the run; None where nothing was.
      fl_audit_version: that wrote the report.
      failed_checks: titles of the checks of its mechanism that failed.
    """

    folder: Path
    report: Mapping[str, Any]
    config: Mapping[str, Any]
    record: Record
    statistics: Mapping[str, Statistic]
    analytical: Analytical
    accuracy: float
    verdict: Verdict | None
    fl_audit_version: str
    failed_checks: tuple[str, ...]

    def estimate(self, statistic: str, method: str) -> Estimate | None:
        """What a method found on a statistic; None where either was left out."""
        if statistic not in self.statistics:
            return None
        made = self.statistics[statistic].estimates
        return next((estimate for estimate in made if estimate.method == method), None)

    def epsilon(self, statistic: str, method: str) -> float | None:
        """Epsilon by one method; None where it was left out."""
        estimate = self.estimate(statistic, method)
        return None if estimate is None else float(estimate.epsilon)

    def guarantee(self, party: str) -> float | None:
        """The analytical epsilon to one of `PARTIES`; None where none is known."""
        epsilon = getattr(self.analytical, party).epsilon
        return None if epsilon is None else float(epsilon)


def read_reported_runs(folders: Sequence[Path]) -> list[ReportedRun]:
    """Reads the reports of at least two finished runs.

    Raises:
      InputError: fewer than two folders, one of them twice, or one without a finished run.
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
        report = msgspec.json.decode(text, type=dict[str, Any])
        _check_format(folder, report)
        read = msgspec.convert(report, _Report)
        _check_epsilons(read)
    except (msgspec.MsgspecError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder.report_json}: is not the report of a run: {error}") from error
    return ReportedRun(
        folder=folder.path,
        report=report,
        config=_resolved(read.config, f"{folder.report_json}, config"),
        record=read.run,
        statistics=read.statistics,
        analytical=read.analytical,
        accuracy=read.accuracy,
        verdict=read.verdict,
        fl_audit_version=read.fl_audit_version,
        failed_checks=tuple(
            title_of_check(check.name) for check in read.checks.results if not check.passed
        ),
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


def _check_format(folder: RunFolder, report: Mapping[str, Any]) -> None:
    run = report.get("run")
    version = run.get("format_version") if isinstance(run, Mapping) else None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder.report_json}: format_version of the run is {version!r}, must be "
            f"{FORMAT_VERSION}"
        )


def _check_epsilons(report: _Report) -> None:
    """Raises a `ValueError` for an epsilon that is no number."""
    analytical = report.analytical
    guarantees = [analytical.client.epsilon, analytical.canary.epsilon]
    made = [e.epsilon for statistic in report.statistics.values() for e in statistic.estimates]
    for epsilon in (*guarantees, *made):
        if isinstance(epsilon, str) and epsilon != "inf":
            raise ValueError(f"an epsilon must be a number or 'inf', got {epsilon!r}")


def _resolved(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A config with the defaults of keys that are newer than its run, a value per key."""
    resolved: dict[str, Any] = msgspec.to_builtins(parse_config(table, name))
    return _flat(resolved)


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as `section.key`.

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
