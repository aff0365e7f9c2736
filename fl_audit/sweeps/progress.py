"""One display over all runs of a sweep, on standard error if that is a terminal."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from fl_audit.formats.run_folder import RunFolder
from fl_audit.sweeps.grid import SweepRun
from fl_audit.sweeps.states import RunState


class SweepProgress:
    """A bar of finished runs, beside it the rounds of those at work."""

    def __init__(self, runs: Sequence[SweepRun], done: int) -> None:
        """Shows the bar.

        Args:
          runs: All runs of the sweep.
          done: The number of those that were finished before.
        """
        from tqdm import tqdm

        self._rounds = {run.name: run.config.participation.rounds for run in runs}
        self._bar = tqdm(
            desc="sweep", total=len(runs), initial=done, unit="run", disable=None, leave=False
        )

    def __enter__(self) -> "SweepProgress":
        """The display itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Takes the bar away."""
        self._bar.close()

    def ended(self, state: RunState) -> None:
        """Counts a run that has ended, and says at once if it failed."""
        self._bar.update()
        if state.error is not None and not self._bar.disable:
            self._bar.write(f"{state.name} failed: {state.error}")

    def look(self, at_work: Sequence[RunState]) -> None:
        """Shows how many rounds the runs at work have behind them."""
        if not self._bar.disable:
            parts = (f"{s.name} {self._completed(s)}" for s in at_work)
            self._bar.set_postfix_str(", ".join(parts))

    def _completed(self, state: RunState) -> str:
        rounds = self._rounds[state.name]
        completed = _rows(RunFolder(state.folder).metrics)
        return f"{completed}" if rounds is None else f"{completed}/{rounds}"


def _rows(metrics: Path) -> int:
    """The rounds that a run's metrics count so far."""
    try:
        return max(metrics.read_bytes().count(b"\n") - 1, 0)
    except OSError:
        return 0  # not begun
