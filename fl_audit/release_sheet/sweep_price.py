"""The sweep that contains a run, and the privacy cost of the sweep's runs on the same data."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from fl_audit.accounting.selection import SelectionPrice, price_of_selection
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.run_record import read_record
from fl_audit.formats.text_files import read_json


@dataclass(frozen=True)
class SweepRuns:
    """The runs of a sweep.

    Attributes:
      num_runs: The number of runs that are in sweep.json or have a folder with a config.
      num_recorded: The number of runs with a record.
      num_begun: The number of runs without a record that have a config in their folder, or are
        finished or failed according to sweep.json.
      price: The privacy cost of the recorded runs for a client.
    """

    num_runs: int
    num_recorded: int
    num_begun: int
    price: SelectionPrice


class _ListedRun(msgspec.Struct):
    name: str
    state: str | None = None


class _Sweep(msgspec.Struct):
    """The part of a sweep.json that is read."""

    runs: tuple[_ListedRun, ...] = ()


def sweep_around(folder: Path, delta: float) -> SweepRuns | None:
    """The sweep that contains a run's folder, SWEEP/runs/NAME; None without SWEEP/sweep.json."""
    runs = folder.resolve().parent
    listed = runs.parent / "sweep.json"
    if runs.name != "runs" or not listed.exists():
        return None
    states = {run.name: run.state for run in read_json(listed, _Sweep, "the state of a sweep").runs}
    names = states.keys() | {
        path.name for path in runs.iterdir() if RunFolder(path).config.exists()
    }
    folders = [RunFolder(runs / name) for name in sorted(names)]
    recorded = [run for run in folders if run.record.exists()]
    begun = [
        run
        for run in folders
        if run not in recorded
        and (run.config.exists() or states.get(run.path.name) in ("finished", "failed"))
    ]
    price = price_of_selection([read_record(run).release for run in recorded], delta)
    return SweepRuns(len(names), len(recorded), len(begun), price)
