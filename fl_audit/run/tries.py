"""Runs under a commitment, which are listed as soon as their chain has begun."""

from pathlib import Path

from fl_audit.config.commitment import list_try, tries_of
from fl_audit.progress import warn
from fl_audit.run.observers import RoundObserver, StartedRun


class TryLister(RoundObserver):
    """Lists a run beside its commitment, and warns where it is not the first."""

    def __init__(self, commitment: Path) -> None:
        """Takes the file of the commitment."""
        self._commitment = commitment

    def run_started(self, run: StartedRun) -> None:
        """Lists the run; one that is resumed is listed already."""
        number = list_try(self._commitment, run.folder)
        if number > 1:
            warn(
                f"run {number} under {self._commitment.name}, as {tries_of(self._commitment).name} "
                "lists: `fl-audit verify` will say that there were others"
            )
