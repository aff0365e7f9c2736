"""One round with and without an audit.

`python -m benchmarks.audited_round` prints the time of a processor that the parts of an audit take
after a round of the LSTM with 2,000 canaries; half a minute, without any training.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow_federated as tff

from benchmarks.next_word import PAPER, classifier_of, made_up_clients
from benchmarks.peers.stock_tff import StockRound, fed_avg_of_ours
from benchmarks.rounds import ROUNDS, OurRound, in_memory, run_of
from fl_audit.attacks.attacker import SeenRound
from fl_audit.checks import AggregateLog, MechanismWatch
from fl_audit.config import FedAvg
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.engines.tff.local import local_of
from fl_audit.formats.folders import RunFolder
from fl_audit.run.attackers import attack_context, make_attackers
from fl_audit.run.loop import LiveAudit


class RoundAudit:
    """What an audit does after a round: the checks, all default attackers and the live test."""

    def __init__(self, run: PreparedRun, folder: Path) -> None:
        """Opens the logs.

        Args:
          run: The run, of ROUNDS rounds.
          folder: A new folder for the logs.
        """
        folder.mkdir(exist_ok=True)
        sizes, dim = run.task.classifier.variable_sizes, run.task.classifier.dim
        log = AggregateLog.opened("w+", RunFolder(folder), ROUNDS, sizes)
        self._watch = MechanismWatch(sizes, log, 0)
        context = attack_context(run, local_of(run), RunFolder(folder), 0)
        self._attackers = make_attackers(context)
        self._cosines, self._live = context.round_cosines, LiveAudit.from_context(context)
        self._model = np.zeros(dim, np.float32)
        self._seen = 0

    def see(self, aggregate: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Takes in the next round; returns every canary's cosine with its aggregate."""
        for part in (self.check, self.attack, self.test):
            part(aggregate)
        scored = self._cosines.scored_round(self._seen)
        self._seen += 1
        assert scored is not None
        return scored.cosines

    def check(self, aggregate: npt.NDArray[np.float32]) -> None:
        """Measures the aggregate for the checks of the mechanism."""
        self._watch.measure_round(aggregate, noise_stddev=0.0, norm_bound=1.0)

    def attack(self, aggregate: npt.NDArray[np.float32]) -> None:
        """Shows the round to the attackers."""
        seen = SeenRound(self._seen, self._model, aggregate, self._model, clip_norm=1.0)
        for attacker in self._attackers:
            attacker.see_round(seen)

    def test(self, aggregate: npt.NDArray[np.float32]) -> float | None:
        """Makes the live test of the attacked round."""
        del aggregate  # its cosines are logged
        self._live.see_round(self._seen)
        return self._live.epsilon


class AuditedRound:
    """A round with canaries, whose aggregate is audited as the round loop does."""

    def __init__(
        self, ours: OurRound, run: PreparedRun, canaries: Sequence[int], folder: Path
    ) -> None:
        """Opens the logs.

        Args:
          ours: The round of all clients.
          run: The run of that round.
          canaries: Indices of the canaries that take part.
          folder: A new folder for the logs.
        """
        self._round, self._canaries = ours, canaries
        self._audit = RoundAudit(run, folder)
        self._aggregate = np.zeros(run.family.dim, np.float32)

    def __call__(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Runs the round; returns its aggregate and every canary's cosine with it."""
        self._aggregate = self._round(canaries=self._canaries).seen.aggregate
        return self._aggregate, self.score()

    def score(self) -> npt.NDArray[np.float32]:
        """Audits the last round's aggregate once more."""
        return self._audit.see(self._aggregate)


class UnauditedRound:
    """A round of TFF's federated averaging with our model, under the `local` runtime."""

    def __init__(self, run: PreparedRun) -> None:
        """Compiles the process."""
        loop = tff.learning.LoopImplementation.DATASET_ITERATOR  # as ours, and faster there
        process = fed_avg_of_ours(run, loop_implementation=loop)
        self._context = LocalContext(num_threads=os.cpu_count() or 1)
        with local_runtime(self._context):
            self._round = StockRound(process, run)

    def __call__(self) -> Any:
        """Runs the round and returns the state after it."""
        with local_runtime(self._context):
            return self._round.one_by_one()


def main() -> None:
    """Prints the parts, with one own round of a canary and with several."""
    clients = made_up_clients(PAPER, count=50, batches=1)
    task = in_memory("made up", classifier_of(PAPER), clients)
    random = np.random.default_rng(1)
    for participations in (1, 5):
        run = run_of(task, FedAvg(), participations)
        with tempfile.TemporaryDirectory() as folder:
            audit = RoundAudit(run, Path(folder))
            parts = {"check": audit.check, "attack": audit.attack, "test": audit.test}
            took: dict[str, list[float]] = {name: [] for name in parts}
            for _ in range(5):
                aggregate = random.standard_normal(run.family.dim, np.float32)
                for name, part in parts.items():
                    started = time.process_time()
                    part(aggregate)
                    took[name].append(time.process_time() - started)
                audit.see(aggregate)
        medians = (f"{name} {1e3 * statistics.median(of):.1f} ms" for name, of in took.items())
        print(f"{participations} own rounds of a canary: {', '.join(medians)}", flush=True)


if __name__ == "__main__":
    main()
