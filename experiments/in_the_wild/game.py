"""A canary game on released code, and the test of its claim by `fl-audit estimate`.

In each of 600 games a coin decides whether one canary takes part in a round of the library, whose
other clients are known to the attacker. The score is the likelihood ratio of what was released, as
a number of standard deviations: N(0, 1) without the canary, N(mu, 1) with it. It is tested as a
claim on scores whose null distribution is known.
"""

import contextlib
import io
import json
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.cli import main as fl_audit
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu

GAMES = 600
DELTA = 1e-5
_DIM = 10**6
"""Cosines with a vector of so many random signs have the null distribution N(0, 1 / _DIM)."""

Play = Callable[[bool, np.random.Generator], float]


@dataclass(frozen=True)
class Game:
    """A game and the claim that it tests.

    Attributes:
      name: The library and its feature.
      claim: The claim, as options of `fl-audit estimate`.
      play: A game: whether the canary is included and its randomness, to the score.
      mu: The mu of the release for the canary, by the exact formula.
    """

    name: str
    claim: tuple[str, str]
    play: Play
    mu: float


def verdict(game: Game, seed: int) -> dict:
    """What `fl-audit estimate` says of a game's claim."""
    generator = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.csv"
        rows = ["canary_id,included,score"]
        for number in range(GAMES):
            included = bool(generator.integers(2))
            score = game.play(included, generator) / math.sqrt(_DIM)
            rows.append(f"{number},{int(included)},{score!r}")
        path.write_text("\n".join(rows) + "\n")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            fl_audit(
                [
                    *("estimate", str(path), "--delta", str(DELTA), "--dim", str(_DIM)),
                    *("--canaries", "gaussian", "--json", *game.claim),
                ]
            )
    return json.loads(said.getvalue())


def print_verdicts(games: Sequence[Game]) -> None:
    """Prints a row for each game; the first argument of the command is the seed, by default 1."""
    warnings.simplefilter("ignore")
    print("| game | claimed | exact ε | verdict | p | lower bound |\n|---|---|---|---|---|---|")
    for game in games:
        result = verdict(game, seed=int(sys.argv[1]) if sys.argv[1:] else 1)
        tested = result["verdict"]
        estimates = {one["method"]: one for one in result["estimates"]}
        print(
            f"| {game.name} | {' '.join(game.claim).lstrip('-')} | "
            f"{epsilon_of_mu(game.mu, DELTA):.2f} | {tested['outcome']} | "
            f"{tested['p_value']:.1g} | "
            f"{estimates['threshold_gdp']['lower']:.2f} |",
            flush=True,
        )
