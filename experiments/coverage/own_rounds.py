"""How often what own-round scores prove exceeds the truth, with real vectors in every round.

Usage: python -m experiments.coverage.own_rounds worlds|sizes|live [RUNS, 200 by default]

A round releases the sum of its included canaries' vectors, each a clip norm long, and of clients'
updates, with Gaussian noise: for a canary with R own rounds that is the Gaussian mechanism of shift
sqrt(R) / noise multiplier. Scores, null distributions and bounds are made by fl_audit's own code.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize

from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.attacks.compared_vectors import (
    ComparedVectors,
    any_one_of,
    concentration_row,
)
from fl_audit.attacks.directions import RoundDirections
from fl_audit.attacks.live_test import LiveCanaries, LiveTest, ScoredRound
from fl_audit.attacks.own_rounds import OwnRounds, RoundWeights
from fl_audit.canaries.families import FAMILIES, WITH_KNOWN_NULL
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.null import Null
from fl_audit.formats.round_logs import DirectionLog

DELTA, CONFIDENCE = 1e-3, 0.95
BOUNDS = ("threshold_valid", "threshold_gdp", "one_run_valid", "shift_fit")
"""Lower bounds, and an interval whose lower end is looked at."""

CLIENTS = 20
"""Clients of a round where they learn."""

WORLDS = ("noise alone", "rounds alike", "four coordinates", "adaptive clip")


@dataclass(frozen=True)
class Cell:
    """One setting of a simulation.

    Attributes:
      epsilon: Epsilon that the noise guarantees a canary at DELTA.
      canaries: Number of canaries, each included by a fair coin.
      rounds: Number of rounds.
      own: Own rounds of a canary, one in each of as many equal parts of the run.
      dim: Number of parameters.
      family: Family of the canaries.
      world: What else is in the aggregates, one of WORLDS.
      width: Length of a kept direction; None for the whole one.
    """

    epsilon: float
    canaries: int
    rounds: int
    own: int
    dim: int
    family: str
    world: str
    width: int | None = None

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier at which a canary's rounds together have epsilon."""
        mu = optimize.brentq(lambda m: epsilon_of_mu(m, DELTA) - self.epsilon, 1e-3, 100)
        return float(np.sqrt(self.own) / mu)


@dataclass(frozen=True, eq=False)
class Audited:
    """One simulated run.

    Attributes:
      included: The coins, bool of shape (canaries,).
      own: The rounds of every canary.
      directions: The directions of all aggregates, float64 of shape (rounds, dim).
      vectors: The canaries' vectors, float64 of shape (canaries, dim).
    """

    included: npt.NDArray[np.bool_]
    own: OwnRounds
    directions: FloatArray
    vectors: FloatArray

    def cosines(self) -> FloatArray:
        """Every canary's cosine with each of its rounds, float64 of shape (canaries, own)."""
        rounds = np.stack(self.own.of_canary)
        return np.stack(
            [np.einsum("kd,kd->k", self.vectors, self.directions[of]) for of in rounds.T], axis=1
        )


def simulated(cell: Cell, seed: int) -> Audited:
    """Runs the rounds."""
    random = np.random.default_rng([seed, 7])
    family = FAMILIES[cell.family](seed, cell.canaries, cell.dim)
    vectors = np.stack([family.vector(canary) for canary in range(cell.canaries)]).astype(float)
    included = random.random(cell.canaries) < 0.5
    rounds = _dealt(random, cell)
    sums = np.zeros((cell.rounds, cell.dim))
    for of in rounds[included].T:
        np.add.at(sums, of, vectors[included])
    aggregates = sums + cell.noise_multiplier * random.standard_normal((cell.rounds, cell.dim))
    if cell.world == "rounds alike":
        aggregates += 0.5 * cell.noise_multiplier * random.standard_normal(cell.dim)
    if cell.world == "four coordinates":
        aggregates[:, :4] += cell.noise_multiplier * np.sqrt(cell.dim)
    if cell.world == "adaptive clip":
        counts = np.bincount(rounds[included].ravel(), minlength=cell.rounds)
        aggregates = _trained(aggregates, counts, random)
    lengths = np.linalg.norm(aggregates, axis=1, keepdims=True)
    return Audited(included, OwnRounds(tuple(rounds)), aggregates / lengths, vectors)


def _dealt(random: np.random.Generator, cell: Cell) -> IntArray:
    parts = np.array_split(np.arange(cell.rounds), cell.own)
    return np.stack([random.choice(part, cell.canaries) for part in parts], axis=1)


def _trained(
    aggregates: FloatArray, counts: npt.NDArray[np.int64], random: np.random.Generator
) -> FloatArray:
    """Adds the updates of clients who learn, clipped to a norm that follows the share of clipped.

    Clients pull the model back to where it should be, so what canaries of earlier rounds have moved
    comes back with the other sign. Their updates keep their own length while clip norm, canaries
    and noise move together, and who was there decides about the next round's clip norm. All that is
    decided by what was released before, and leaves the guarantee of a round as it is.

    Args:
      aggregates: Canaries and noise in clip norms, float64 of shape (rounds, dim).
      counts: The number of included canaries in each round, int64 of shape (rounds,).
      random: The clients' data, and the noise of the count.
    """
    num_rounds, dim = aggregates.shape
    released, model, clip_norm = np.empty_like(aggregates), np.zeros(dim), 1.0
    for index in range(num_rounds):
        lengths = np.exp(0.7 * random.standard_normal(CLIENTS))
        updates = random.standard_normal((CLIENTS, dim)) * (lengths / np.sqrt(dim))[:, None]
        updates -= 0.5 * model
        norms = np.linalg.norm(updates, axis=1)
        clipped = np.minimum(1, clip_norm / norms) @ updates
        released[index] = clipped + clip_norm * aggregates[index]
        model += released[index] / CLIENTS
        below = np.sum(norms <= clip_norm) + random.standard_normal()
        share = below / (CLIENTS + counts[index])
        clip_norm = float(np.clip(clip_norm * np.exp(0.5 - share), 1e-3, 1e3))
    return released


def bounds(cell: Cell, seed: int) -> Mapping[str, float]:
    """What each method proves of one run, and the live test at its end."""
    run = simulated(cell, seed)
    scores, null = scored(cell, run)
    setting = AuditSetting(scores, DELTA, CONFIDENCE, null)
    found = {}
    for method in BOUNDS:
        made = METHODS[method](setting)
        found[method] = made.epsilon if made.lower is None else made.lower
    if cell.own == 1:
        # Claims are on a grid, so that the test proves at most the one below the truth.
        test = LiveTest(live_canaries(cell, run), DELTA, cell.epsilon)
        see_all_rounds(test, cell, run)
        found["live"] = test.epsilon(CONFIDENCE, at_least=cell.epsilon)
    return found


def scored(cell: Cell, run: Audited) -> tuple[CanaryScores, Null]:
    """The scores in own rounds, and what is known of excluded ones."""
    cosines = run.cosines()
    if cell.own == 1:
        scores, compared = cosines[:, 0], any_one_of(_rows(run.directions))
    else:
        scores, compared = _of_several(cell, run, cosines)
    assert compared is not None
    tail = compared.null_tail(cell.family, cell.dim)
    canaries = CanaryScores(scores[run.included], scores[~run.included])
    return canaries, Null(tail=tail, dim=cell.dim)


def _rows(directions: FloatArray) -> FloatArray:
    return np.stack([concentration_row(one.astype(np.float32)) for one in directions])


def _of_several(
    cell: Cell, run: Audited, cosines: FloatArray
) -> tuple[FloatArray, ComparedVectors | None]:
    """Scores with several own rounds, as `KnownRoundsAttacker` makes them."""
    rows = np.zeros((cell.rounds, 1 + (cell.width or cell.dim)), np.float32)
    log = RoundDirections(DirectionLog.from_rows(rows), seed=1, dim=cell.dim)
    for index, direction in enumerate(run.directions):
        log.add(index, direction.astype(np.float32))
    everything = np.arange(cell.rounds)
    sums = log.weighted_sums(RoundWeights.from_presences(run.own, everything), everything)
    if sums is None:
        return cosines.sum(axis=1), None
    return np.clip(cosines.sum(axis=1) / sums.lengths, -1, 1), sums.compared


@dataclass(frozen=True, eq=False)
class _Rounds:
    """The rounds for the live test: of each, the scores of its own canaries alone."""

    run: Audited
    scores: Float32Array

    def scored_round(self, index: int) -> ScoredRound:
        row = concentration_row(self.run.directions[index].astype(np.float32))
        return ScoredRound(self.scores, any_one_of(row[None]))


def live_canaries(cell: Cell, run: Audited) -> LiveCanaries:
    """The canaries of a run for a live test."""
    return LiveCanaries(run.included, run.own, cell.family, cell.dim)


def see_all_rounds(test: LiveTest, cell: Cell, run: Audited) -> None:
    """Shows a live test all rounds of a run in which canaries have one round each."""
    scores = run.cosines()[:, 0].astype(np.float32)
    test.add(_Rounds(run, scores), range(cell.rounds))


def worlds() -> Iterator[Cell]:
    """Every family in every world, of one size; and with directions that are kept short."""
    for family in WITH_KNOWN_NULL:
        for world in WORLDS:
            yield Cell(2.0, 200, 20, 3, 64, family, world)
        yield Cell(2.0, 200, 20, 3, 2000, family, "rounds alike", width=600)


def sizes() -> Iterator[Cell]:
    """From few canaries, rounds and dimensions to many."""
    for family in WITH_KNOWN_NULL:
        yield Cell(0.5, 50, 10, 2, 64, family, "noise alone")
        yield Cell(8.0, 50, 100, 10, 64, family, "rounds alike")
        yield Cell(16.0, 500, 200, 5, 64, family, "adaptive clip")
        yield Cell(4.0, 500, 500, 4, 1000, family, "four coordinates")
        yield Cell(2.0, 2000, 2000, 10, 64, family, "noise alone")


def live() -> Iterator[Cell]:
    """One own round, where the claim is tested after each."""
    for family in WITH_KNOWN_NULL:
        yield Cell(0.5, 50, 1, 1, 64, family, "noise alone")
        yield Cell(2.0, 200, 20, 1, 64, family, "four coordinates")
        yield Cell(8.0, 500, 200, 1, 64, family, "adaptive clip")
        yield Cell(16.0, 50, 50, 1, 1000, family, "rounds alike")
        yield Cell(4.0, 2000, 2000, 1, 64, family, "noise alone")


def main() -> None:
    """Prints a row per cell; a quarter of the runs where there are 2,000 rounds."""
    cells = {"worlds": worlds, "sizes": sizes, "live": live}[sys.argv[1]]()
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    columns = (*BOUNDS, "live")
    print(f"| canaries | in each round | k | ε | T | own | d | runs | {' | '.join(columns)} |")
    print("|---" * (8 + len(columns)) + "|")
    for cell in cells:
        print(_row(cell, runs // 4 if cell.rounds == 2000 else runs, columns), flush=True)


def _row(cell: Cell, runs: int, columns: tuple[str, ...]) -> str:
    """The share of runs above the truth in percent, and the median as a share of it."""
    made = [bounds(cell, seed) for seed in range(runs)]
    cells = []
    for column in columns:
        values = np.array([one[column] for one in made if column in one])
        if len(values) == 0:
            cells.append("–")
            continue
        # The live test proves the claim itself or nothing; others count where they exceed it.
        above = values > 0 if column == "live" else values > cell.epsilon * (1 + 1e-9)
        share = "" if column == "live" else f" ({np.median(values) / cell.epsilon:.2f})"
        cells.append(f"{100 * np.mean(above):.1f} %{share}")
    kept = cell.dim if cell.width is None else f"{cell.dim} in {cell.width}"
    size = (cell.canaries, f"{cell.epsilon:g}", cell.rounds, cell.own, kept, runs)
    words = (cell.family, cell.world, *size)
    return f"| {' | '.join(map(str, (*words, *cells)))} |"


if __name__ == "__main__":
    main()
