"""One compared audit: a finished run from its report.json, or scores of another system.

Participations come from canaries.csv if it lists rounds, else from the record in report.json; all
other values come from report.json.
"""

import functools
import os
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from fl_audit.accounting.samplings.fixed_size import FixedSizeSampling
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.array_types import IntArray
from fl_audit.attacks.logs import Progress
from fl_audit.config.file import flat_keys
from fl_audit.errors import InputError
from fl_audit.estimators import Estimate
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.formats.participation_files import read_canaries
from fl_audit.formats.round_chain import Reported, digest_of, read_chain
from fl_audit.formats.run_record import FORMAT_VERSION, RunRecord, read_record
from fl_audit.formats.text_files import check_format_version, read_json
from fl_audit.library_words import json_words
from fl_audit.report.build import EstimateRequest, report_on_folder
from fl_audit.report.finished_run import check_together
from fl_audit.report.folder import AuditedFolder
from fl_audit.report.headline import Headline, headline_on
from fl_audit.report.report import Report, report_from_json, report_to_json

Party = Literal["client", "canary"]
"""The party that an upper bound from accounting is for."""

PARTIES: tuple[Party, ...] = ("client", "canary")


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """A finished run, or scores of another system.

    Attributes:
      folder: The folder, as it was given.
      report: The report of the run or of the folder's scores.
      report_json: The object in report.json, unchanged; for other scores, the JSON object that
        `fl-audit estimate` gives for the folder.
      config: The resolved config, by `section.key`; empty for other scores.
      scored_rounds: The rounds, from 0, that were trained and scored; None if unknown.
    """

    folder: Path
    report: Report
    report_json: Mapping[str, Any]
    config: Mapping[str, Any]
    scored_rounds: IntArray | None = None

    @property
    def record(self) -> RunRecord | None:
        """The run's record; None for scores of another system."""
        return self.report.run

    @functools.cached_property
    def participations(self) -> float | None:
        """The mean number of scored rounds of an included canary, if known.

        It is counted in canaries.csv. If the file is missing or lists no rounds, the result is,
        unless the run was stopped, the record's largest number of rounds if it has one; under
        Poisson or fixed-size sampling the expected number; else None.
        """
        if self._listed:
            return statistics.fmean(scored for scored, _ in self._listed)
        if self.record is None or not self.record.num_canaries:
            return None
        sampling = self.record.release.canary.sampling
        if sampling.most is not None and self.record.stopped_after is None:
            return float(sampling.most)
        if isinstance(sampling, PoissonSampling | FixedSizeSampling):
            return self.record.rounds_done * sampling.share
        return None

    @property
    def scored_of_listed(self) -> tuple[int, int]:
        """The rounds of included canaries, summed over canaries: the scored and all listed ones."""
        return sum(scored for scored, _ in self._listed), sum(listed for _, listed in self._listed)

    @functools.cached_property
    def _listed(self) -> list[tuple[int, int]]:
        """For each included canary the numbers of scored and of listed rounds; empty if unknown."""
        path = RunFolder(self.folder).canaries
        rows = read_canaries(path).values() if path.exists() else ()
        listed = [row.rounds for row in rows if row.included and row.rounds is not None]
        done = self.scored_rounds
        return [
            (len(own) if done is None else int(np.isin(own, done).sum()), len(own))
            for own in listed
        ]

    @functools.cached_property
    def unsealed(self) -> tuple[str, ...]:
        """What a run lacks, in words, so that a change of its report cannot be noticed."""
        if self.record is None:
            return ()
        run = RunFolder(self.folder)
        missing = tuple(path.name for path in (run.chain, run.record) if not path.exists())
        if not missing and read_chain(run.chain).last(Reported) is None:
            missing = (f"the report's line in {run.chain.name}",)
        return missing

    @property
    def why_canaries_failed(self) -> str | None:
        """Why the canary check failed, in words; None unless it did."""
        found = self.report.canary_check
        return found.reason if found is not None and found.state == "not_arrived" else None

    @property
    def is_sampled(self) -> bool:
        """Whether a client's number of rounds is random or unknown; False without accounting."""
        analytical = self.report.analytical
        return analytical is not None and analytical.client.participations is None

    def headline(self, statistic: str) -> Headline | None:
        """The bounds and the estimate on one statistic; None if the statistic was left out."""
        known = statistic in self.report.statistics
        return headline_on(self.report, statistic) if known else None

    def estimate(self, statistic: str, method: str) -> Estimate | None:
        """The estimate by a method on a statistic; None if either was left out.

        Lower bounds of a stopped run do not hold at their confidence (`valid_for` is None), and are
        left out.
        """
        result = self.report.statistics.get(statistic)
        estimate = None if result is None else result.estimate_by(method)
        if estimate is None or self.record is None or self.record.stopped_after is None:
            return estimate
        is_void = estimate.kind == "lower_bound" and estimate.valid_for is None
        return None if is_void else estimate

    def epsilon(self, statistic: str, method: str) -> float | None:
        """Epsilon by one method on one statistic; None if either was left out."""
        estimate = self.estimate(statistic, method)
        return None if estimate is None else estimate.epsilon

    def interval(self, statistic: str, method: str) -> tuple[float, float] | None:
        """The limits of one method's interval; None if the method was left out or has none."""
        estimate = self.estimate(statistic, method)
        if estimate is None or estimate.lower is None or estimate.upper is None:
            return None
        return estimate.lower, estimate.upper

    def guarantee(self, party: Party) -> float | None:
        """The upper bound from accounting for one party, if known."""
        analytical = self.report.analytical
        if analytical is None:
            return None
        return (analytical.client if party == "client" else analytical.canary).epsilon


def read_reported_runs(
    folders: Sequence[Path], delta: float | None = None, progress: Progress = iter
) -> list[ReportedRun]:
    """Reads the reports of finished runs, and makes reports of folders with other scores.

    Args:
      folders: The folders of runs, of logs, and of other scores.
      delta: The delta for folders without a report; None for the delta that all runs share.
      progress: Wraps the iteration over the files of aggregates that are scored.
    """
    first_by_place: dict[Path, Path] = {}
    for folder in folders:
        place = Path(os.path.realpath(folder))
        if place in first_by_place:
            first = first_by_place[place]
            raise InputError(f"{folder}: is the same folder as {first}; name each run once")
        first_by_place[place] = folder
    runs = {folder: None if _is_foreign(folder) else _read(RunFolder(folder)) for folder in folders}
    deltas = {run.report.delta for run in runs.values() if run is not None}
    return [
        _estimate(folder, deltas, delta, progress) if run is None else run
        for folder, run in runs.items()
    ]


def _is_foreign(folder: Path) -> bool:
    """Whether a folder holds a log or scores that `fl-audit run` did not write."""
    run = RunFolder(folder)
    if run.report_json.exists() or run.config.exists():
        return False
    return LogFolder(folder).pool.exists() or any(folder.glob("scores_*.csv"))


def _estimate(
    folder: Path, deltas: Collection[float], requested: float | None, progress: Progress
) -> ReportedRun:
    if requested is None and len(deltas) != 1:
        raise InputError(
            f"--delta: is needed for {folder}, which has no report of a run"
            + (", and the runs' deltas differ" if deltas else "")
        )
    delta = next(iter(deltas)) if requested is None else requested
    audited = AuditedFolder(folder, progress)
    report = report_on_folder(audited, EstimateRequest(delta))
    log = audited.log
    scored = log.cosines.scored_rounds() if log is not None and log.num_rounds else None
    return ReportedRun(folder, report, report_to_json(report), config={}, scored_rounds=scored)


def read_report(folder: RunFolder) -> Report:
    """Reads the report of a finished run."""
    return _report(folder, _report_fields(folder))


def _read(folder: RunFolder) -> ReportedRun:
    fields = _report_fields(folder)
    report = _report(folder, fields)
    if folder.record.exists():
        _check_record(folder, report)
    config = flat_keys(msgspec.to_builtins(report.config))
    return ReportedRun(
        folder=folder.path,
        report=report,
        report_json=fields,
        config=config,
        scored_rounds=None if report.run is None else np.arange(report.run.rounds_done),
    )


def _check_record(folder: RunFolder, report: Report) -> None:
    record = read_record(folder)
    check_together(folder, record)
    if record != report.run:
        raise InputError(
            f"{folder.report_json}: is the report of another run than {folder.record.name}; "
            "delete the report, and `fl-audit run --resume` writes it anew"
        )


def _report_fields(folder: RunFolder) -> dict[str, Any]:
    if not folder.report_json.exists():
        raise InputError(_why_no_report(folder))
    fields = read_json(folder.report_json, dict[str, Any], "the report of a run")
    run = fields.get("run")
    version = run.get("format_version") if isinstance(run, Mapping) else None
    check_format_version(folder.report_json, version, FORMAT_VERSION)
    # A run with a secret schedule shows others its report, not its chain.
    chain = folder.checked_chain() if os.access(folder.chain, os.R_OK) else None
    name = folder.report_json.name
    sealed = None if chain is None else chain.last(Reported)
    if sealed is not None and sealed.files.get(name) != digest_of(folder.report_json):
        raise InputError(
            f"{folder.report_json}: has changed since the run wrote it; restore the original, or "
            "delete it, and `fl-audit run --resume` writes it anew"
        )
    return fields


def _report(folder: RunFolder, fields: Mapping[str, Any]) -> Report:
    try:
        return report_from_json(fields, str(folder.report_json))
    except (msgspec.MsgspecError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{folder.report_json}: is not the report of a run: {json_words(error)}"
        ) from error


def _why_no_report(folder: RunFolder) -> str:
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
