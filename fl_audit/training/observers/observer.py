"""The interface of observers, and what they are told of a run and of its rounds."""

import dataclasses
from dataclasses import dataclass

import msgspec

from fl_audit.array_types import FloatArray
from fl_audit.config import Config
from fl_audit.config.file import Scalar, flat_scalars
from fl_audit.formats.folders import RunFolder


@dataclass(frozen=True)
class StartedRun:
    """What an observer is told as a run starts or goes on.

    Attributes:
      folder: The folder of the run.
      config: The config of the run.
      num_rounds: The number of rounds of the whole run.
      completed_rounds: The number of rounds done before; above 0 where an interrupted run goes on.
    """

    folder: RunFolder
    config: Config
    num_rounds: int
    completed_rounds: int

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.path.name

    @property
    def parameters(self) -> dict[str, Scalar]:
        """The values of the config by `section.key`, without keys that are not set."""
        return flat_scalars(msgspec.to_builtins(self.config))


@dataclass(frozen=True)
class RoundMetrics:
    """The metrics of one round.

    Attributes:
      round: Number of the round, from 1.
      num_clients: Number of real clients that took part.
      num_canaries: Number of canaries that took part.
      clip_norm: Norm that updates were clipped to.
      noise_stddev: Standard deviation of the noise on each coordinate of the sum of updates.
      aggregate_norm: Length of the noised aggregate.
      train_loss: Mean loss over the cohort's examples, in nats.
      accuracy: Accuracy on held-out data after the round; None where it was not evaluated.
      seconds_training: Wall time of the TFF round, in seconds.
      seconds_scoring: Wall time of scoring the canaries, in seconds.
      epsilon_proven: Lower bound on epsilon by own-round scores so far, valid at all rounds
        together at the audit's confidence; None where there is none.
    """

    round: int
    num_clients: int
    num_canaries: int
    clip_norm: float
    noise_stddev: float
    aggregate_norm: float
    train_loss: float
    accuracy: float | None
    seconds_training: float
    seconds_scoring: float
    epsilon_proven: float | None = None


@dataclass(frozen=True, eq=False)
class CanaryCosines:
    """The cosines of canaries with the noised aggregate of one round.

    Attributes:
      in_round: Those of the canaries that took part in the round, float64 of shape (k,).
      excluded: Those of the canaries that the coins keep out of all rounds, float64 of shape (l,).
    """

    in_round: FloatArray
    excluded: FloatArray

    def means(self) -> dict[str, float]:
        """The means of both by name, without that of an empty set."""
        named = {"cosine_in_round": self.in_round, "cosine_excluded": self.excluded}
        return {name: float(cosines.mean()) for name, cosines in named.items() if cosines.size}


@dataclass(frozen=True, eq=False)
class FinishedRound:
    """What an observer is told of a round that is over.

    Attributes:
      metrics: The metrics of the round.
      cosines: The cosines of canaries with its aggregate; None where no attacker compares them.
      contradicted_at: The epsilon by which the rounds so far contradict the claim of a run that
        then stops; 0 while it stands, and in runs that do not stop.
    """

    metrics: RoundMetrics
    cosines: CanaryCosines | None = None
    contradicted_at: float = 0.0

    def numbers(self) -> dict[str, float]:
        """All that is known of the round as numbers by name, for a log of experiments."""
        named = dataclasses.asdict(self.metrics)
        del named["round"]
        known = {name: float(value) for name, value in named.items() if value is not None}
        return known if self.cosines is None else known | self.cosines.means()


class RoundObserver:
    """Something that is told of every round of a run, such as a progress bar or a log.

    A subclass defines the methods that it needs. An error that one of them raises ends the run,
    which can be resumed.
    """

    def run_started(self, run: StartedRun) -> None:
        """Is called before the first round of a run, and again where a run is resumed."""

    def round_finished(self, finished: FinishedRound) -> None:
        """Is called after every round; after a crash with those since the last checkpoint again."""

    def run_ended(self, *, finished: bool) -> None:
        """Is called once after `run_started`, whatever ended the run.

        Args:
          finished: Whether the training is over; else it was interrupted, or an error ended it.
        """
