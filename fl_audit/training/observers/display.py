"""What a run shows on standard error while it trains."""

from fl_audit.estimators.anytime import LARGEST_TESTED
from fl_audit.progress import Progress, say
from fl_audit.training.observers.observer import FinishedRound, RoundObserver, StartedRun


class ProgressDisplay(RoundObserver):
    """Shows the rounds, the last evaluation and what is proven."""

    def run_started(self, run: StartedRun) -> None:
        """Shows how many rounds there are."""
        self._evaluated: dict[str, str] = {}
        self._progress = Progress(run.name, run.num_rounds, "round", run.completed_rounds)

    def round_finished(self, finished: FinishedRound) -> None:
        """Counts the round."""
        metrics = finished.metrics
        if metrics.accuracy is not None:
            self._evaluated = {
                "loss": f"{metrics.train_loss:.3f}",
                "accuracy": f"{metrics.accuracy:.3f}",
            }
        proven = metrics.epsilon_proven
        most = ", the largest tested" if proven and proven >= LARGEST_TESTED else ""
        shown = {"epsilon at least": f"{proven:.3g}{most}"} if proven else {}
        self._progress.advance(facts=self._evaluated | shown)

    def run_ended(self, *, finished: bool) -> None:
        """Takes the bar away."""
        del finished
        self._progress.close()


class VerdictLine(RoundObserver):
    """Says that a run stops because the rounds so far contradict its claim."""

    def run_started(self, run: StartedRun) -> None:
        """Remembers what is claimed."""
        self._claim = run.config.audit.claimed_epsilon

    def round_finished(self, finished: FinishedRound) -> None:
        """Says it in the round in which the claim falls."""
        if self._claim is not None and finished.contradicted_at > 0:
            say(
                f"round {finished.metrics.round}: the claim of epsilon {self._claim:g} is "
                f"contradicted, at least {finished.contradicted_at:.3g} is proven; the run stops"
            )
