"""Federated systems in plain NumPy, and the audits that their engineers would make of them.

Of the package only the pool of canaries, and what an engineer calls, is used: `RoundScorer` and the
command line. A system has 20 or more rounds of clipped updates, their
sum over a denominator, Gaussian noise, and 400 canaries in 2,000 dimensions, each in one round.

Its claim is 3.14 at delta 1e-3, which is noise of 1.0 clip norms; a wrong system has 0.5, which is
an epsilon of 7.58, and something that hides it from the audit. It is claimed as a point, of which
400 canaries could contradict no less than 8, and as the Gaussian curve through it: of that they
contradict 6, so that a right system is consistent and a wrong one would have to hide.
"""

import contextlib
import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats

from fl_audit.attacks import CanaryPool, Participation, RoundScorer
from fl_audit.cli import main

DELTA, CLAIM = 1e-3, 3.14

CLIP, COHORT = 0.5, 20


def gaussian_epsilon(noise_multiplier: float, delta: float = DELTA) -> float:
    """The epsilon of one release with Gaussian noise (Balle & Wang 2018, Theorem 8)."""
    mu = 1 / noise_multiplier

    def excess(epsilon: float) -> float:
        hit, miss = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return float(stats.norm.cdf(hit) - np.exp(epsilon + stats.norm.logcdf(miss)) - delta)

    return float(optimize.brentq(excess, 0.0, 700.0))


@dataclass(eq=False)
class System:
    """A system that trains once, and what its engineer hands over of it.

    Attributes:
      noise: The standard deviation of the noise that is added, over the clip norm.
      claim: The epsilon that is claimed.
      truth: The true epsilon of a client at delta; by default that of one round with this noise.
      way: What is handed over: "log" (files), "loop" (`RoundScorer`), "cosines" (a log without
        aggregates) or "scores" (a score file).
      repeats: The number of rounds of each canary.
      update: The part of a round's sum that a canary is, float64 of shape (dim,).
      release: What the system makes of the sum of a round.
      scored: What the engineer hands over of a released aggregate.
      promised: The length of a canary that the engineer says; None says nothing.
      noise_told: The standard deviation of a round's noise and the aggregate's greatest length
        without it, as the engineer says; None where nothing is said.
      listed: The rounds of each canary, from 1, as the engineer lists them.
      is_scored: Whether the engineer hands over a round, from 0.
      after: What becomes of the folder at the end.
      participation: How clients take part, as the engineer says; None where nothing is said.
    """

    noise: float = 1.0
    seed: int = 1
    dim: int = 2000
    rounds: int = 20
    count: int = 400
    family: str = "rademacher"
    inclusion: str = "coins"
    repeats: int = 1
    way: str = "log"
    claim: float = CLAIM
    truth: float | None = None
    dtype: str = "float32"
    clip: Callable[["System", int], float] = lambda s, t: CLIP
    denominator: Callable[["System", int], float] = lambda s, t: COHORT
    takes_part: Callable[["System"], np.ndarray] | None = None
    update: Callable[["System", int, int], np.ndarray] = lambda s, c, t: s.clip(s, t) * s.vectors[c]
    clients: Callable[["System", int], np.ndarray] = lambda s, t: s.random.normal(
        0, 2 * s.clip(s, t) / s.dim**0.5, s.dim
    )
    make_noise: Callable[["System", int], np.ndarray] = lambda s, t: (
        s.noise * s.clip(s, t) * s.random.normal(size=s.dim)
    )
    release: Callable[["System", int, np.ndarray], np.ndarray] = lambda s, t, total: (
        (total + s.make_noise(s, t)) / s.denominator(s, t)
    )
    scored: Callable[["System", int, np.ndarray], np.ndarray] = lambda s, t, release: release
    promised: Callable[["System", int], float | None] = lambda s, t: (
        s.clip(s, t) / s.denominator(s, t)
    )
    noise_told: Callable[["System", int], tuple[float, float]] | None = None
    listed: Callable[["System"], list[list[int]] | None] = lambda s: [
        [int(t) + 1 for t in np.flatnonzero(row)] for row in s.turns.T
    ]
    is_scored: Callable[["System", int], bool] = lambda s, t: True
    after: Callable[["System", Path], None] = lambda s, folder: None
    participation: Callable[["System"], dict[str, Any] | None] = lambda s: {
        "sampling": "none",
        "client_rounds": s.repeats,
        "client_weight": 1.0,
    }
    memory: dict[str, Any] = field(default_factory=dict)

    def prepare(self) -> None:
        """Draws the pool, and when canaries, included or not, have their turns."""
        self.random = np.random.default_rng(100 + self.seed)
        self.pool = CanaryPool(self.seed, self.count, self.dim, self.family, self.inclusion)
        self.vectors = np.stack([self.pool.vector(c) for c in range(self.count)])
        self.included = self.pool.included
        self.turns = np.zeros((self.rounds, self.count), bool)
        self.deal()
        self.present = self.included if self.takes_part is None else self.takes_part(self)

    def deal(self) -> None:
        """Draws the rounds of canaries, included or not, into `turns`."""
        for _ in range(self.repeats):
            order = self.random.permutation(np.arange(self.count) % self.rounds)
            self.turns[order, np.arange(self.count)] = True

    def truth_of_a_client(self) -> float:
        return gaussian_epsilon(self.noise) if self.truth is None else self.truth

    def aggregates(self):
        """The rounds that are handed over: index from 0, and what is handed over."""
        for t in range(self.rounds):
            handed = self.handed_over(t, np.flatnonzero(self.turns[t] & self.present))
            if self.is_scored(self, t):
                yield t, handed.astype(self.dtype)

    def handed_over(self, t: int, canaries: Sequence[int] | np.ndarray) -> np.ndarray:
        """Trains a round, from 0, with some canaries, and gives what is handed over of it."""
        total = self.clients(self, t)
        for canary in canaries:
            total = total + self.update(self, int(canary), t)
        return np.asarray(self.scored(self, t, self.release(self, t, total)))

    def claimed_mu(self) -> float:
        """The mu of the Gaussian curve through the claim."""
        noise = optimize.brentq(lambda z: gaussian_epsilon(z) - self.claim, 0.04, 200.0)
        return 1 / float(noise)

    def write(self, folder: Path) -> list[str]:
        """Trains, hands over, and gives what `fl-audit estimate` is called with, but the claim."""
        self.prepare()
        self._hand_over(folder)
        told = self.participation(self)
        if told is not None and self.way in ("log", "cosines", "nvflare"):
            (folder / "participation.json").write_text(json.dumps(told))
        self.after(self, folder)
        if self.way == "scores":
            return [str(folder / "scores.csv"), "--dim", str(self.dim)]
        return [str(folder)]

    def kinds(self) -> contextlib.AbstractContextManager[None]:
        """A block in which the folder can be read."""
        return contextlib.nullcontext()

    def _hand_over(self, folder: Path) -> None:
        """Trains, and writes the folder in the system's way."""
        getattr(self, f"_write_{self.way}")(folder)

    def _write_log(self, folder: Path) -> None:
        self._write_pool(folder)
        (folder / "aggregates").mkdir()
        lengths = np.full((self.rounds, 2), np.nan)
        for t, handed in self.aggregates():
            np.save(folder / "aggregates" / f"round_{t + 1:06d}.npy", handed)
            lengths[t] = np.linalg.norm(handed.astype(float)), self._promise(t)
        self._write_rounds(folder, lengths)

    def _write_cosines(self, folder: Path) -> None:
        self._write_pool(folder)
        lengths = np.full((self.rounds, 2), np.nan)
        cosines = np.full((self.rounds, self.count), np.nan, np.float32)
        for t, handed in self.aggregates():
            lengths[t] = np.linalg.norm(handed.astype(float)), self._promise(t)
            cosines[t] = self.vectors @ handed / lengths[t, 0]
        np.save(folder / "round_cosines.npy", cosines)
        self._write_rounds(folder, lengths)

    def _write_loop(self, folder: Path) -> None:
        scorer = self.scorer(folder)
        for t, handed in self.aggregates():
            promise = self._promise(t)
            stddev, bound = (None, None) if self.noise_told is None else self.noise_told(self, t)
            scorer.score_round(
                t + 1,
                handed,
                canary_length=None if np.isnan(promise) else promise,
                noise_stddev=stddev,
                norm_bound=bound,
            )
            scorer = self.between(t, scorer, folder)
        scorer.finish()

    def scorer(self, folder: Path) -> RoundScorer:
        """The scorer of a loop."""
        told = self.participation(self)
        said = None if told is None else Participation(**told)
        listed = self.listed(self)
        return RoundScorer.create(folder, self.pool, self.rounds, listed, participation=said)

    def between(self, t: int, scorer: RoundScorer, folder: Path) -> RoundScorer:
        """What happens between two rounds of a loop."""
        del t, folder
        return scorer

    def _write_scores(self, folder: Path) -> None:
        folder.mkdir()
        scores = np.zeros(self.count)
        for t, handed in self.aggregates():
            mine = self.turns[t]
            scores[mine] = self.vectors[mine] @ handed / np.linalg.norm(handed.astype(float))
        with (folder / "scores.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["canary_id", "included", "score"])
            rows.writerows(zip(range(self.count), self.included.astype(int), scores, strict=True))

    def _promise(self, t: int) -> float:
        promised = self.promised(self, t)
        return np.nan if promised is None else promised

    def _write_pool(self, folder: Path) -> None:
        folder.mkdir()
        fields = {"family": self.family, "seed": self.seed, "count": self.count, "dim": self.dim}
        if self.inclusion != "coins":
            fields["inclusion"] = self.inclusion
        (folder / "pool.json").write_text(json.dumps({"format_version": 2, **fields}))

    def _write_rounds(self, folder: Path, lengths: np.ndarray) -> None:
        np.save(folder / "round_lengths.npy", lengths)
        if self.noise_told is not None:
            told = np.array([self.noise_told(self, t) for t in range(self.rounds)])
            np.save(folder / "round_mechanism.npy", told)
        listed = self.listed(self)
        if listed is None:
            return
        with (folder / "canaries.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["canary_id", "included", "rounds"])
            for canary, (is_in, own) in enumerate(zip(self.included, listed, strict=True)):
                rows.writerow([canary, int(is_in), " ".join(map(str, own))])


@dataclass(frozen=True)
class Answer:
    """What the command says of a folder.

    Attributes:
      outcome: "consistent", "contradicted", "inconclusive", or "refused" for bad input.
      detectable: The smallest epsilon that would have been contradicted; None where none is said.
      canary_check: The state of arrival; None where nothing is said of it.
      text: The line of bad input, or the verdict's sentences.
    """

    outcome: str
    detectable: float | None
    canary_check: str | None
    text: str


def ask(arguments: Sequence[str]) -> Answer:
    """Calls `fl-audit estimate` in this process."""
    out, error = io.StringIO(), io.StringIO()
    words = ["estimate", *arguments, "--delta", str(DELTA), "--json"]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = main(words)
    if status == 2:
        return Answer("refused", None, None, error.getvalue())
    return answer_of(json.loads(out.getvalue()))


def answer_of(found: dict[str, Any]) -> Answer:
    """What the JSON of a command, or of a run's report, says."""
    verdict = found["verdict"]
    detectable = verdict.get("detectable_epsilon")
    canary_check = found.get("arrival") or {}
    return Answer(
        verdict["outcome"],
        float("inf") if detectable == "inf" else detectable,
        canary_check.get("state"),
        json.dumps({"verdict": verdict, "arrival": canary_check}, ensure_ascii=False),
    )
