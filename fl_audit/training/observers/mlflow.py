"""A run in MLflow: its config as parameters, its rounds as metrics."""

from fl_audit.extras import import_extra
from fl_audit.training.observers.observer import FinishedRound, RoundObserver, StartedRun


class MlflowObserver(RoundObserver):
    """Logs to the MLflow run that is active, or to one of its own, which it starts and ends."""

    def __init__(self) -> None:
        """Imports MLflow.

        Raises:
          InputError: MLflow is not installed.
        """
        self._mlflow = import_extra("mlflow")

    def run_started(self, run: StartedRun) -> None:
        """Logs the config."""
        self._is_own = self._mlflow.active_run() is None
        if self._is_own:
            self._mlflow.start_run(run_name=run.name)
        self._mlflow.log_params(run.parameters)

    def round_finished(self, finished: FinishedRound) -> None:
        """Logs the numbers of a round."""
        self._mlflow.log_metrics(finished.numbers(), step=finished.metrics.round)

    def run_ended(self, *, finished: bool) -> None:
        """Ends the MLflow run if it is an own one."""
        if self._is_own:
            self._mlflow.end_run("FINISHED" if finished else "KILLED")
