"""How far each run of a sweep is, as its folder tells, and sweep.json, which says it."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import write_text
from fl_audit.run.folder import check_new, check_same_config
from fl_audit.sweeps.grid import SweepRun

State = Literal["planned", "finished", "failed"]


@dataclass(frozen=True)
class RunState:
    """One run of a sweep and how far it is.

    Attributes:
      name: The name of the run.
      settings: The keys that it changes in the base config.
      state: `finished` with a report, `failed` where it ended without one, else `planned`: not
        begun, at work or interrupted.
      folder: Its run folder.
      error: Why it failed, in one line; None where it did not.
    """

    name: str
    settings: Mapping[str, Any]
    state: State
    folder: Path
    error: str | None = None

    def ended(self, error: str | None) -> "RunState":
        """The state after the run's end: failed with an error, else finished."""
        state: State = "finished" if error is None else "failed"
        return dataclasses.replace(self, state=state, error=error)


def found_state(run: SweepRun, out: Path) -> RunState:
    """The state of a run before the sweep starts it, recognised by its resolved config.

    Args:
      run: The run.
      out: The sweep's folder.

    Raises:
      InputError: The run's folder is taken by something else, such as a run of another config.
    """
    folder = RunFolder(out / "runs" / run.name)
    if folder.config.exists() or folder.report_json.exists():
        check_same_config(folder, run.config)
    else:
        check_new(folder.path)
    state: State = "finished" if folder.report_json.exists() else "planned"
    return RunState(run.name, run.settings, state, folder.path)


def sweep_json(states: Sequence[RunState]) -> dict[str, object]:
    """The object of sweep.json."""
    return {"runs": [{**dataclasses.asdict(s), "folder": str(s.folder)} for s in states]}


def write_states(states: Sequence[RunState], out: Path) -> None:
    """Writes sweep.json, which appears whole."""
    text = json.dumps(sweep_json(states), indent=1, default=str)
    write_text(out / "sweep.json", text + "\n")
