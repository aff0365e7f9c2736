"""A run in Weights & Biases: its config, and the numbers of its rounds."""

from fl_audit.extras import import_extra
from fl_audit.training.observers.observer import FinishedRound, RoundObserver, StartedRun


class WandbObserver(RoundObserver):
    """Logs to the W&B run that is active, or to one of its own, which it starts and ends."""

    def __init__(self) -> None:
        """Imports the client of Weights & Biases.

        Raises:
          InputError: It is not installed.
        """
        self._wandb = import_extra("wandb")

    def run_started(self, run: StartedRun) -> None:
        """Logs the config."""
        self._is_own = self._wandb.run is None
        self._run = self._wandb.init(name=run.name) if self._is_own else self._wandb.run
        self._run.config.update(run.parameters)

    def round_finished(self, finished: FinishedRound) -> None:
        """Logs the numbers of a round."""
        self._run.log(finished.numbers(), step=finished.metrics.round)

    def run_ended(self, *, finished: bool) -> None:
        """Ends the W&B run if it is an own one."""
        if self._is_own:
            self._run.finish(exit_code=0 if finished else 1)
