"""Right systems that are unusual in one way each."""

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fl_audit.attacks import RoundScorer
from tests.outside.frameworks import FlowerSystem, NVFlareSystem
from tests.outside.systems import CLIP, COHORT, DELTA, System, gaussian_epsilon
from tests.outside.trained_run import TrainedSystem


class _Restarted(System):
    """The server stops after every fifth round and goes on."""

    def between(self, t: int, scorer: RoundScorer, folder: Path) -> RoundScorer:
        return RoundScorer.open(folder) if t % 5 == 4 else scorer


class _BackToACheckpoint(System):
    """The server scores rounds 11 and 12 once more with new noise: it went back."""

    def _write_loop(self, folder: Path) -> None:
        scorer = self.scorer(folder)
        rounds = dict(self.aggregates())
        lost = {t: rounds[t] + self.random.normal(0, 1e-3, self.dim) for t in (10, 11)}
        for t, handed in [*list(rounds.items())[:12], *lost.items(), *list(rounds.items())[12:]]:
            vector = np.asarray(handed, self.dtype)
            scorer.score_round(t + 1, vector, canary_length=self._promise(t))
        scorer.finish()


def _growing(s: System, t: int) -> float:
    return 0.1 * 1.1**t


def _rate(t: int) -> float:
    return float(1 / (1 + t))


def _poisson(s: System) -> np.ndarray:
    s.turns = s.random.random((s.rounds, s.count)) < 0.05
    return s.included


def amplified(noise: float, probability: float, rounds: int) -> float:
    """The epsilon that dp_accounting gives of Poisson sampling, without known rounds."""
    import dp_accounting
    from dp_accounting import pld

    accountant = pld.PLDAccountant()
    event = dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(noise))
    accountant.compose(event, rounds)
    return float(accountant.get_epsilon(DELTA))


def _models(s: System, folder: Path) -> None:
    """The models of a server with momentum, whose aggregates are in the log."""
    model = velocity = np.zeros(s.dim)
    for path in sorted((folder / "aggregates").iterdir()):
        velocity = 0.9 * velocity + np.load(path)
        model = model + velocity
    np.save(folder / "initial.npy", np.zeros(s.dim, np.float32))
    np.save(folder / "final.npy", model.astype(np.float32))


def _quarter(s: System) -> np.ndarray:
    s.included = s.random.random(s.count) < 0.25
    return s.included


def _say_a_quarter(s: System, folder: Path) -> None:
    path = folder / "canaries.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", newline="") as file:
        columns = [*rows[0], "inclusion", "inclusion_probability"]
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for row in rows:
            said = {"inclusion": "unequal_coins", "inclusion_probability": 0.25}
            writer.writerow(row | said)


def _some_never(s: System) -> np.ndarray:
    """A tenth of the canaries, included or not, never has a turn."""
    s.turns[:, s.random.random(s.count) < 0.1] = False
    return s.included


def _in_steps(step: float) -> Callable[[System, int, np.ndarray], np.ndarray]:
    return lambda s, t, release: step * np.floor(release / step + s.random.random(s.dim))


def _without_empty_rounds(s: System) -> np.ndarray:
    s.turns[::4] = False
    return s.included


def _mean_of_those_who_come(s: System, t: int) -> float:
    return 10 + 3 * (t % 4)


AMPLIFIED = {
    "sampling": "poisson",
    "probability": 0.05,
    "client_rounds": None,
    "client_weight": 1.0,
    "claim_counts_on_sampling": True,
}

RIGHT: dict[str, Callable[[], System]] = {
    "a log of files": System,
    "a loop": lambda: System(way="loop"),
    "cosines alone": lambda: System(way="cosines"),
    "cosines alone, noise told": lambda: System(
        way="cosines",
        noise_told=lambda s, t: (CLIP / COHORT, (COHORT + s.turns[t].sum()) * CLIP / COHORT),
    ),
    "a score file": lambda: System(way="scores"),
    "gaussian canaries": lambda: System(family="gaussian"),
    "hadamard canaries": lambda: System(family="hadamard"),
    "d = 2": lambda: System(dim=2, family="gaussian"),
    "d = 2, signs": lambda: System(dim=2),
    "d = 3": lambda: System(dim=3, family="gaussian"),
    "d = 10, signs": lambda: System(dim=10),
    "d = 10, 4,000 canaries": lambda: System(dim=10, count=4000, family="gaussian"),
    "d = 50,000": lambda: System(dim=50_000, count=60),
    "one included canary": lambda: System(count=2, seed=2),
    "10 canaries": lambda: System(count=10),
    "3,000 canaries": lambda: System(count=3000),
    "1,000 rounds": lambda: System(rounds=1000, dim=500),
    "one round": lambda: System(rounds=1, count=60),
    "pairs": lambda: System(inclusion="pairs"),
    "a fixed half": lambda: System(inclusion="fixed_half"),
    "coins of a quarter": lambda: System(takes_part=_quarter, after=_say_a_quarter),
    "no clip, equal updates": lambda: System(promised=lambda s, t: CLIP / COHORT),
    "a mean of those who come": lambda: System(denominator=_mean_of_those_who_come),
    "a mean of those who come, in a loop": lambda: System(
        way="loop", denominator=_mean_of_those_who_come
    ),
    "the sum": lambda: System(denominator=lambda s, t: 1.0),
    "a restart after every fifth round": lambda: _Restarted(way="loop"),
    "rounds scored again after a restart": lambda: _BackToACheckpoint(way="loop"),
    "momentum at the server, aggregates handed over": lambda: System(after=_models),
    "float16 aggregates": lambda: System(scored=lambda s, t, r: r.astype(np.float16)),
    "float16 aggregates in a loop": lambda: System(
        way="loop", scored=lambda s, t, r: r.astype(np.float16)
    ),
    "float64 aggregates": lambda: System(dtype="float64"),
    "fixed point of 2^-10 with stochastic rounding": lambda: System(scored=_in_steps(2.0**-10)),
    "a clip norm that grows": lambda: System(clip=_growing),
    "a clip norm that falls": lambda: System(clip=lambda s, t: 0.9**t),
    "a multiple of the aggregate": lambda: System(
        scored=lambda s, t, r: 7.0 * r, promised=lambda s, t: 7.0 * CLIP / COHORT
    ),
    "a learning rate that falls": lambda: System(
        scored=lambda s, t, r: _rate(t) * r, promised=lambda s, t: _rate(t) * CLIP / COHORT
    ),
    "three rounds each, claimed for three": lambda: System(
        repeats=3, claim=gaussian_epsilon(1 / math.sqrt(3)) + 0.01
    ),
    "a claim far above the truth": lambda: System(claim=20.0),
    "much noise, claimed so": lambda: System(5.0, claim=gaussian_epsilon(5.0) + 0.001),
    "little noise, claimed so": lambda: System(0.3, claim=gaussian_epsilon(0.3) + 0.01),
    "long clients": lambda: System(
        clients=lambda s, t: s.random.normal(0, 8 * CLIP / s.dim**0.5, s.dim)
    ),
    "clients all alike": lambda: System(
        clients=lambda s, t: 5 * CLIP * np.ones(s.dim) / s.dim**0.5
    ),
    "clients on few coordinates": lambda: System(
        clients=lambda s, t: np.where(np.arange(s.dim) < 5, 2 * CLIP, 0.0)
    ),
    "a tenth of all canaries never has a turn": lambda: System(takes_part=_some_never),
    "every fourth round without canaries": lambda: System(takes_part=_without_empty_rounds),
    "no lengths handed over": lambda: System(promised=lambda s, t: None),
    "no rounds handed over": lambda: System(listed=lambda s: None),
    "sampling that the claim counts on": lambda: System(
        takes_part=_poisson,
        claim=amplified(1.0, 0.05, 20) + 0.001,
        participation=lambda s: AMPLIFIED,
    ),
    "nothing said of clients": lambda: System(participation=lambda s: None),
    "noise told": lambda: System(
        noise_told=lambda s, t: (CLIP / COHORT, (COHORT + s.turns[t].sum()) * CLIP / COHORT)
    ),
    "Flower": FlowerSystem,
    "Flower, three rounds each": lambda: FlowerSystem(
        repeats=3, claim=gaussian_epsilon(1 / math.sqrt(3)) + 0.01
    ),
    "NVFlare": NVFlareSystem,
    "NVFlare, no lengths handed over": lambda: NVFlareSystem(promised=lambda s, t: None),
    "a run": TrainedSystem,
    "a run with little noise, claimed so": lambda: TrainedSystem(
        0.3, claim=gaussian_epsilon(0.3) + 0.01
    ),
    "a run of 30 canaries": lambda: TrainedSystem(count=30),
}
"""Systems by what is unusual. None is contradicted, refused, or said to have lost its canaries."""
