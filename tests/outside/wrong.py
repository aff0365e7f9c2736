"""Systems with half of the noise that is claimed, or worse, each with something that hides it."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.attacks import CanaryPool, RoundScorer
from tests.outside.frameworks import FlowerSystem, NVFlareSystem
from tests.outside.systems import CLIP, COHORT, System, gaussian_epsilon
from tests.outside.trained_run import TrainedSystem

HALF = 0.5


def _times(factor: float) -> Callable[[System, int, int], np.ndarray]:
    return lambda s, c, t: factor * s.clip(s, t) * s.vectors[c]


def _arrives(share: float) -> Callable[[System, int, int], np.ndarray]:
    return lambda s, c, t: (s.random.random() < share) * s.clip(s, t) * s.vectors[c]


def _masked(share: float) -> Callable[[System, int, int], np.ndarray]:
    return lambda s, c, t: np.where(
        np.arange(s.dim) < share * s.dim, s.clip(s, t) * s.vectors[c], 0
    )


def _excluded_too(share: float) -> Callable[[System], np.ndarray]:
    return lambda s: s.included | (s.random.random(s.count) < share)


def _rarely(s: System) -> np.ndarray:
    """Poisson sampling with q T = 0.2: most canaries never have a turn."""
    s.turns = s.random.random((s.rounds, s.count)) < 0.2 / s.rounds
    return s.included


def _poisson(s: System) -> dict[str, Any]:
    coins = {"sampling": "poisson", "probability": 0.2 / s.rounds, "client_rounds": None}
    return {**coins, "client_weight": 1.0, "claim_counts_on_sampling": False}


def _clients(**may: float) -> Callable[[System], dict[str, Any]]:
    return lambda s: {"sampling": "none", **may}


def _in_the_first_half(s: System) -> np.ndarray:
    s.turns = np.roll(s.turns, 0)
    s.turns[: s.rounds // 2] |= s.turns[s.rounds // 2 :]
    s.turns[s.rounds // 2 :] = False
    return s.included


def _noise_until(round_index: int, before: float, after: float):
    return lambda s, t: (
        (before if t < round_index else after) * s.clip(s, t) * s.random.normal(size=s.dim)
    )


def _bare_coordinates(share: float):
    return lambda s, t: np.where(
        np.arange(s.dim) < share * s.dim, 0, s.noise * s.clip(s, t) * s.random.normal(size=s.dim)
    )


def _same_noise(s: System, t: int) -> np.ndarray:
    drawn = s.memory.setdefault("noise", s.random.normal(size=s.dim))
    return s.noise * s.clip(s, t) * drawn


def _unclipped(times: float) -> Callable[[System, int], np.ndarray]:
    return lambda s, t: s.random.normal(0, times * CLIP / s.dim**0.5, s.dim)


def _told(s: System, t: int) -> tuple[float, float]:
    """The noise as it should be, and the most that the clients of a round add up to."""
    most = COHORT + (s.turns[t] & s.included).sum()
    return s.clip(s, t) / COHORT, most * s.clip(s, t) / COHORT


def _round_before(s: System, t: int, release: np.ndarray) -> np.ndarray:
    last, s.memory["last"] = s.memory.get("last", release), release
    return last


def _first(s: System, t: int, release: np.ndarray) -> np.ndarray:
    return s.memory.setdefault("first", release)


def _momentum(s: System, t: int, release: np.ndarray) -> np.ndarray:
    s.memory["moved"] = 0.9 * s.memory.get("moved", 0) + release
    return s.memory["moved"]


def _model(s: System, t: int, release: np.ndarray) -> np.ndarray:
    s.memory["model"] = s.memory.get("model", s.random.normal(size=s.dim)) + release
    return s.memory["model"]


def _permuted_rounds(s: System) -> list[list[int]]:
    return [[int(t) + 1 for t in np.flatnonzero(row)] for row in s.random.permutation(s.turns.T)]


def _from_zero(s: System) -> list[list[int]]:
    return [[max(int(t), 1) for t in np.flatnonzero(row)] for row in s.turns.T]


def _other_pool(**fields) -> Callable[[System, Path], None]:
    def after(s: System, folder: Path) -> None:
        written = json.loads((folder / "pool.json").read_text())
        (folder / "pool.json").write_text(json.dumps(written | fields))

    return after


def _beside_a_right_run(names: tuple[str, ...], way: str) -> Callable[[System, Path], None]:
    """Files of an earlier, right run with the same pool stay in the folder."""

    def after(s: System, folder: Path) -> None:
        right = System(noise=1.0, seed=s.seed, way=way)
        earlier = folder.with_name("earlier")
        right.write(earlier)
        for name in names:
            shutil.copy(earlier / name, folder / name)

    return after


class _FinishedEarly(System):
    """`finish` is called at round 10 and never again; the noise is lost afterwards."""

    def between(self, t: int, scorer: RoundScorer, folder: Path) -> RoundScorer:
        if t == 9:
            scorer.finish()
            self.memory["kept"] = {
                path.name: path.read_bytes()
                for path in [*folder.glob("scores_*.csv"), folder / "concentrations.json"]
            }
        return scorer

    def write(self, folder: Path) -> list[str]:
        arguments = super().write(folder)
        for name, content in self.memory["kept"].items():
            (folder / name).write_bytes(content)
        return arguments


MANY_TIMES = gaussian_epsilon(1 / math.sqrt(10))

WRONG: dict[str, Callable[[], System]] = {
    # A.1: less of the canaries arrives than is promised.
    "clipped twice, to 0.7": lambda: System(HALF, update=_times(0.7)),
    "canaries 0.75 times as long": lambda: System(HALF, update=_times(0.75)),
    "canaries 0.9 times as long": lambda: System(HALF, update=_times(0.9)),
    "canaries half as long": lambda: System(HALF, update=_times(0.5)),
    "weighted by examples, 0.7 of a client's, in a loop": lambda: System(
        HALF, way="loop", update=_times(0.7)
    ),
    "lengths from 0.4 to 1": lambda: System(
        HALF, update=lambda s, c, t: s.random.uniform(0.4, 1) * s.clip(s, t) * s.vectors[c]
    ),
    "compressed to 0.56 of the coordinates": lambda: System(HALF, update=_masked(0.56)),
    "compressed to a quarter of the coordinates": lambda: System(HALF, update=_masked(0.25)),
    "three of four presentations lost": lambda: System(HALF, update=_arrives(0.25)),
    "one of four presentations lost": lambda: System(HALF, update=_arrives(0.75)),
    "two of five presentations lost, in a loop": lambda: System(
        HALF, way="loop", update=_arrives(0.6)
    ),
    "half dropped under another denominator": lambda: System(
        HALF, update=_arrives(0.5), denominator=lambda s, t: COHORT / 2
    ),
    "half dropped, and the promise halved": lambda: System(
        HALF, update=_arrives(0.5), promised=lambda s, t: CLIP / COHORT / 2
    ),
    "zeroed from the middle on": lambda: System(
        HALF, update=lambda s, c, t: (t < s.rounds // 2) * s.clip(s, t) * s.vectors[c]
    ),
    "canaries 0.7 times as long, cosines alone": lambda: System(
        HALF, way="cosines", update=_times(0.7)
    ),
    # A.2: included canaries without a scored round.
    "a log of every fifth round": lambda: System(HALF, is_scored=lambda s, t: t % 5 == 0),
    "a loop of every fifth round": lambda: System(
        HALF, way="loop", is_scored=lambda s, t: t % 5 == 0
    ),
    "cosines of every fifth round": lambda: System(
        HALF, way="cosines", is_scored=lambda s, t: t % 5 == 0
    ),
    "every third round of 30": lambda: System(HALF, rounds=30, is_scored=lambda s, t: t % 3 == 0),
    "a log that ends in the middle": lambda: System(HALF, is_scored=lambda s, t: t < s.rounds // 2),
    "a log that ends after 3 rounds of 20": lambda: System(HALF, is_scored=lambda s, t: t < 3),
    "Poisson sampling with q T = 0.2": lambda: System(
        HALF, takes_part=_rarely, participation=_poisson
    ),
    "Poisson sampling with q T = 0.2, in a loop": lambda: System(
        HALF, way="loop", takes_part=_rarely, participation=_poisson
    ),
    # A.3: files that are about different rounds.
    "finished at round 10, and the noise lost afterwards": lambda: _FinishedEarly(
        1.0, way="loop", make_noise=_noise_until(10, 1.0, 0.05), truth=gaussian_epsilon(0.05)
    ),
    "old cosines beside new aggregates": lambda: System(
        0.05, after=_beside_a_right_run(("round_cosines.npy",), "cosines")
    ),
    "old scores beside new aggregates": lambda: System(
        0.05, after=_beside_a_right_run(("scores_own_rounds.csv",), "loop")
    ),
    "old scores beside new rounds of a loop": lambda: System(
        0.05,
        way="loop",
        after=_beside_a_right_run(("scores_own_rounds.csv", "concentrations.json"), "loop"),
    ),
    # A.4: shorter than the mechanism allows a client; a promise of their own length would hide it.
    "canaries at a tenth of the clip norm": lambda: System(0.05, update=_times(0.1)),
    # A.5: excluded canaries take part.
    "a tenth of the excluded canaries takes part": lambda: System(
        HALF, takes_part=_excluded_too(0.1)
    ),
    "a quarter of the excluded canaries takes part": lambda: System(
        HALF, takes_part=_excluded_too(0.25)
    ),
    "half of the excluded canaries takes part, in a loop": lambda: System(
        HALF, way="loop", takes_part=_excluded_too(0.5)
    ),
    "all excluded canaries take part": lambda: System(HALF, takes_part=_excluded_too(1.1)),
    # A.6: the mechanism is broken where canaries hardly see it.
    "a tenth of the coordinates without noise": lambda: System(
        1.0, make_noise=_bare_coordinates(0.1), truth=math.inf, noise_told=_told
    ),
    "a tenth of the coordinates without noise, in a loop": lambda: System(
        1.0, way="loop", make_noise=_bare_coordinates(0.1), truth=math.inf, noise_told=_told
    ),
    "the same noise in every round": lambda: System(
        1.0, make_noise=_same_noise, truth=math.inf, noise_told=_told
    ),
    "the same noise in every round, in a loop": lambda: System(
        1.0, way="loop", make_noise=_same_noise, truth=math.inf, noise_told=_told
    ),
    "clients that are not clipped": lambda: System(
        1.0, clients=_unclipped(60), truth=700.0, noise_told=_told
    ),
    **{
        f"{what}, and no word of the noise": make
        for what, make in {
            "a tenth of the coordinates without noise": lambda: System(
                1.0, make_noise=_bare_coordinates(0.1), truth=math.inf
            ),
            "the same noise in every round": lambda: System(
                1.0, make_noise=_same_noise, truth=math.inf
            ),
            "clients that are not clipped": lambda: System(
                1.0, clients=_unclipped(20), truth=gaussian_epsilon(0.05)
            ),
        }.items()
    },
    # A.7: how often and with what weight.
    "clients of ten rounds, canaries of one": lambda: System(
        1.0, participation=_clients(client_rounds=10), truth=MANY_TIMES
    ),
    "clients of weight 100, canaries of 1": lambda: System(
        1.0, participation=_clients(client_rounds=1, client_weight=100.0), truth=700.0
    ),
    "noise lost after the canaries' last round": lambda: System(
        1.0,
        takes_part=_in_the_first_half,
        make_noise=_noise_until(10, 1.0, 0.05),
        truth=gaussian_epsilon(0.05),
    ),
    # A.8: bugs of public threads.
    "a private denominator": lambda: System(
        HALF,
        denominator=lambda s, t: 10 + (s.turns[t] & s.included).sum(),
        promised=lambda s, t: s.clip(s, t) / (10 + (s.turns[t] & s.included).sum()),
    ),
    "noise split over 4 micro-batches": lambda: System(1.0 / 2, truth=gaussian_epsilon(HALF)),
    # What is handed over is not what was released, or of others.
    "wrong sign": lambda: System(HALF, scored=lambda s, t, r: -r),
    "wrong sign in every other round": lambda: System(
        HALF, scored=lambda s, t, r: r if t % 2 else -r
    ),
    "noise of another run": lambda: System(
        HALF, scored=lambda s, t, r: s.make_noise(s, t) / COHORT
    ),
    "more noise for the audit's eyes": lambda: System(
        HALF, scored=lambda s, t, r: r + 2 * s.make_noise(s, t) / COHORT
    ),
    "aggregate of the round before": lambda: System(HALF, scored=_round_before),
    "the first aggregate in every round": lambda: System(HALF, scored=_first),
    "momentum instead of the aggregate": lambda: System(HALF, scored=_momentum),
    "the model instead of its movement": lambda: System(HALF, scored=_model),
    "coordinates reversed": lambda: System(HALF, scored=lambda s, t, r: r[::-1]),
    "variables in another order": lambda: System(HALF, scored=lambda s, t, r: np.roll(r, 100)),
    "rounds shuffled": lambda: System(HALF, listed=_permuted_rounds),
    "rounds counted from 0": lambda: System(HALF, listed=_from_zero),
    "canaries of another seed": lambda: System(HALF, after=_other_pool(seed=99)),
    "canaries of another family": lambda: System(HALF, after=_other_pool(family="gaussian")),
    "coins inverted": lambda: System(HALF, takes_part=lambda s: ~s.included),
    "coins shuffled": lambda: System(HALF, takes_part=lambda s: s.random.permutation(s.included)),
    "coins of another seed": lambda: System(
        HALF, takes_part=lambda s: CanaryPool(7, s.count, s.dim).included
    ),
    # A score file alone.
    "a score file with half of the noise, canaries half as long": lambda: System(
        HALF, way="scores", update=_times(0.5)
    ),
    "a score file of canaries that never came": lambda: System(
        HALF, way="scores", update=_times(0.0)
    ),
    "a score file with three of four presentations lost": lambda: System(
        HALF, way="scores", update=_arrives(0.25)
    ),
    "a score file, coins shuffled": lambda: System(
        HALF, way="scores", takes_part=lambda s: s.random.permutation(s.included)
    ),
    # Cosines alone.
    "cosines, three of four presentations lost": lambda: System(
        HALF, way="cosines", update=_arrives(0.25)
    ),
    "cosines of the wrong sign": lambda: System(HALF, way="cosines", scored=lambda s, t, r: -r),
    "cosines, half of the excluded canaries takes part": lambda: System(
        HALF, way="cosines", takes_part=_excluded_too(0.5)
    ),
    "cosines, half of the noise in every other round and twice in the others": lambda: System(
        HALF,
        way="cosines",
        make_noise=lambda s, t: (2 if t % 2 else HALF) * s.clip(s, t) * s.random.normal(size=s.dim),
        noise_told=_told,
    ),
    # Inside Flower.
    "Flower: canaries clipped twice": lambda: FlowerSystem(HALF, update=_times(0.7)),
    "Flower: three of four presentations lost": lambda: FlowerSystem(HALF, update=_arrives(0.25)),
    "Flower: half dropped, and the mean of those who came": lambda: FlowerSystem(
        HALF, update=_arrives(0.5), denominator=lambda s, t: COHORT / 2
    ),
    "Flower: every fifth round has an aggregate": lambda: FlowerSystem(
        HALF, is_scored=lambda s, t: t % 5 == 0
    ),
    "Flower: excluded canaries answer too": lambda: FlowerSystem(
        HALF, takes_part=_excluded_too(0.3)
    ),
    "Flower: a strategy with momentum inside": lambda: FlowerSystem(HALF, scored=_momentum),
    "Flower: the noise is added outside the audit": lambda: FlowerSystem(
        HALF, scored=lambda s, t, r: r + 2 * s.make_noise(s, t) / COHORT
    ),
    "Flower: clients of ten rounds": lambda: FlowerSystem(
        1.0, participation=_clients(client_rounds=10), truth=MANY_TIMES
    ),
    # Inside NVFlare.
    "NVFlare: canaries weigh 0.7 times as much as sites": lambda: NVFlareSystem(
        HALF, update=_times(0.7)
    ),
    "NVFlare: long answers are dropped": lambda: NVFlareSystem(HALF, update=_times(0.0)),
    "NVFlare: three of four canaries dropped": lambda: NVFlareSystem(HALF, update=_arrives(0.25)),
    "NVFlare: rounds without sites": lambda: NVFlareSystem(HALF, is_scored=lambda s, t: t % 5 == 0),
    "NVFlare: the wrong sign": lambda: NVFlareSystem(HALF, scored=lambda s, t, r: -r),
    "NVFlare: the aggregate of the round before": lambda: NVFlareSystem(HALF, scored=_round_before),
    "NVFlare: sites in ten rounds": lambda: NVFlareSystem(
        1.0, participation=_clients(client_rounds=10), truth=MANY_TIMES
    ),
    # A run, whose engine is wrong; its config states the noise that it has, unless said otherwise.
    "a run with canaries 0.7 times as long": lambda: TrainedSystem(HALF, update=_times(0.7)),
    "a run with canaries half as long": lambda: TrainedSystem(HALF, update=_times(0.5)),
    "a run that loses three of four presentations": lambda: TrainedSystem(
        HALF, update=_arrives(0.25)
    ),
    "a run that loses one of four presentations": lambda: TrainedSystem(
        HALF, update=_arrives(0.75)
    ),
    "a run in which half of the excluded canaries takes part": lambda: TrainedSystem(
        HALF, takes_part=_excluded_too(0.5)
    ),
    "a run with coins shuffled": lambda: TrainedSystem(
        HALF, takes_part=lambda s: s.random.permutation(s.included)
    ),
    "a run that shows the wrong sign": lambda: TrainedSystem(HALF, scored=lambda s, t, r: -r),
    "a run that shows the round before": lambda: TrainedSystem(HALF, scored=_round_before),
    "a run that shows momentum": lambda: TrainedSystem(HALF, scored=_momentum),
    "a run that shows variables in another order": lambda: TrainedSystem(
        HALF, scored=lambda s, t, r: np.roll(r, 100)
    ),
    "a run with half of the configured noise": lambda: TrainedSystem(HALF, configured=1.0),
    "a run with the same noise in every round": lambda: TrainedSystem(
        1.0, make_noise=_same_noise, truth=math.inf
    ),
    "a run that loses its noise in the middle": lambda: TrainedSystem(
        1.0, make_noise=_noise_until(10, 1.0, 0.05), truth=gaussian_epsilon(0.05)
    ),
    "a run without noise on a tenth of the coordinates": lambda: TrainedSystem(
        1.0, make_noise=_bare_coordinates(0.1), truth=math.inf
    ),
}
"""Systems by what is wrong. None may be called consistent where its truth is above what was
detectable, unless what is wrong is in UNSEEN."""

UNSEEN = {name for name in WRONG if name.endswith("no word of the noise")}
"""What canaries do not see, and checks of the mechanism would, were they told of the noise: such a
log may be consistent if the verdict says that the mechanism was not checked."""
