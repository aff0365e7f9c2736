"""A hundred right set-ups, drawn from all that systems may be, each claiming just what is true.

    python -m tests.outside.unusual [FIRST [END]]

prints a row for each audit: its set-up, the outcome and the p-value. The claim is the epsilon of a
client, or the curve that it has, so that a verdict contradicts as many as its level allows it to.
"""

import csv
import functools
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from tests.outside.correlated import SQRT, CorrelatedSystem, matrix, tree
from tests.outside.frameworks import FlowerSystem, NVFlareSystem
from tests.outside.less_noise import KINDS, RATE
from tests.outside.right import amplified
from tests.outside.systems import CLIP, COHORT, System, ask, gaussian_epsilon
from tests.outside.trained_run import TrainedSystem

SEEDS, ROUNDS = 6, 12
_NEARLY = 1 + 1e-6

Make = Callable[..., System]

WAYS: dict[str, Make] = {
    "log": System,
    "loop": lambda **rest: System(way="loop", **rest),
    "cosines": lambda **rest: System(way="cosines", **rest),
    "scores": lambda **rest: System(way="scores", **rest),
    "Flower": FlowerSystem,
    "NVFlare": NVFlareSystem,
    "run": TrainedSystem,
}

_TREES = {"accounted": {"tree_rounds": 4}}
CORRELATED: dict[str, tuple[float, Callable[[], dict[str, Any]]]] = {
    "four bands": (sum(c * c for c in SQRT[:4]), dict),
    "the square root": (
        sum(c * c for c in SQRT[:ROUNDS]),
        lambda: {"accounted": {"first_column": SQRT}, "row": matrix(SQRT)},
    ),
    "trees of four rounds": (3.0, lambda: {**_TREES, "row": tree(4)}),
}
"""The squared sensitivity to one round, and what the system is made of."""

MECHANISMS: dict[str, dict[str, Any]] = {
    "fixed": {},
    "a clip norm that falls": {"clip": lambda s, t: CLIP * 0.9**t},
    "a mean of those who come": {"denominator": lambda s, t: 10 + 3 * (t % 4)},
    "the sum": {"denominator": lambda s, t: 1.0},
    "float16": {"scored": lambda s, t, release: release.astype(np.float16)},
    "no lengths": {"promised": lambda s, t: None},
    **{name: {} for name in CORRELATED},
}
PATTERNS = ("one round", "three rounds", "one to five rounds", "Poisson", "Poisson")
CLIENTS: dict[str, dict[str, Any]] = {
    "clients unlike each other": {},
    "no client": {"clients": lambda s, t: np.zeros(s.dim)},
    "clients all alike": {"clients": lambda s, t: CLIP * 5 * np.ones(s.dim) / s.dim**0.5},
}
CLAIMS = ("epsilon", "epsilon", "epsilon", "mu", "rho", "noise", "profile")


@dataclass(frozen=True)
class SetUp:
    """What a system is, and what is claimed of it."""

    way: str
    mechanism: str
    pattern: str
    family: str
    inclusion: str
    clients: str
    claim: str
    statistic: str | None
    noise: float
    count: int
    is_noise_told: bool

    @property
    def words(self) -> str:
        return ", ".join(
            (
                *(self.way, self.mechanism, self.pattern, self.family, self.inclusion),
                *(self.clients, self.claim, self.statistic or "all statistics"),
                f"noise {self.noise:g}, {self.count} canaries",
                "noise told" if self.is_noise_told else "noise not told",
            )
        )

    @property
    def most(self) -> int:
        """The number of rounds of a client."""
        return {"one round": 1, "three rounds": 3, "one to five rounds": 5}.get(self.pattern, 0)

    @property
    def mu(self) -> float:
        """The shift of a client whose rounds are known."""
        squared, _ = CORRELATED.get(self.mechanism, (self.most, None))
        return math.sqrt(squared) / self.noise

    @functools.cached_property
    def epsilon(self) -> float:
        if self.pattern == "Poisson":
            return amplified(self.noise, RATE, ROUNDS)
        return gaussian_epsilon(1 / self.mu)

    def system(self, seed: int) -> System:
        kind, told = KINDS.get(self.pattern), {"sampling": "none", "client_rounds": self.most}
        rest: dict[str, Any] = {
            **MECHANISMS[self.mechanism],
            **CLIENTS[self.clients],
            "takes_part": kind.drawn if kind and self.most not in (1, 3) else None,
            "participation": lambda s: {"client_weight": 1.0, **told},
        }
        if self.pattern == "Poisson":
            rest["participation"] = lambda s: {**KINDS["Poisson"].said, **_COUNTS}
        make = WAYS[self.way]
        if self.mechanism in CORRELATED:
            rest |= {**CORRELATED[self.mechanism][1](), "way": self.way}
            make = CorrelatedSystem
        made = make(
            noise=self.noise,
            seed=seed,
            dim=256 if self.family == "hadamard" else 600,
            rounds=ROUNDS,
            count=self.count,
            family=self.family,
            inclusion=self.inclusion,
            repeats=max(self.most, 1) if self.most != 5 else 1,
            claim=self.epsilon * _NEARLY,
            **rest,
        )
        made.noise_told = self._noise_told if self.is_noise_told else None
        return made

    def _noise_told(self, s: System, t: int) -> tuple[float, float]:
        """What is told of the noise, and the length of all clients and canaries together."""
        unit = s.clip(s, t) / s.denominator(s, t)
        return self.noise * unit, (COHORT + s.count) * unit

    def arguments(self, folder: Path) -> list[str]:
        """What is claimed, as options of the command."""
        number: object = self.epsilon * _NEARLY
        match self.claim:
            case "mu":
                number = self.mu * _NEARLY
            case "rho":
                number = self.mu**2 / 2 * _NEARLY
            case "noise":
                number = self.noise / _NEARLY
            case "profile":
                number = folder.with_suffix(".csv")
                self._write_profile(number)
        chosen = [] if self.statistic is None else ["--statistic", self.statistic]
        chosen += [] if self.count < 20 else ["--methods", "threshold_valid"]  # others are slow
        return [f"--claimed-{self.claim}", str(number), *chosen]

    def _write_profile(self, path: Path) -> None:
        """The exact profile at five epsilons (Balle & Wang 2018, Theorem 8)."""
        epsilons = np.linspace(0.0, 1.5 * self.epsilon, 5)
        hit, miss = self.mu / 2 - epsilons / self.mu, -self.mu / 2 - epsilons / self.mu
        deltas = stats.norm.cdf(hit) - np.exp(epsilons + stats.norm.logcdf(miss))
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["epsilon", "delta"])
            rows.writerows(zip(epsilons, deltas * _NEARLY, strict=True))


_COUNTS = {"claim_counts_on_sampling": True}


_WAYS = (*WAYS, *5 * ("log",), *2 * ("loop", "cosines", "scores"), "Flower", "NVFlare")


def set_ups(number: int = 100) -> list[SetUp]:
    """Set-ups drawn from the product of all kinds, as far as they go together."""
    random = np.random.default_rng(43)
    found: list[SetUp] = []
    while len(found) < number:
        mechanism = str(random.choice([*MECHANISMS, *CORRELATED]))
        drawn = SetUp(
            way=_WAYS[len(found) % len(_WAYS)],
            mechanism=mechanism,
            pattern=str(random.choice(PATTERNS)),
            family=str(random.choice(["rademacher", "gaussian", "hadamard"])),
            inclusion=str(random.choice(["coins", "coins", "fixed_half", "pairs"])),
            clients=str(random.choice(list(CLIENTS))),
            claim=str(random.choice(CLAIMS)),
            statistic=[None, "own_rounds"][random.integers(2)],
            noise=float(random.choice([0.4, 0.7, 1.0, 2.0])),
            count=int(random.choice([10, 60, 150])),
            is_noise_told=mechanism in CORRELATED or bool(random.integers(2)),
        )
        if _goes_together(drawn):
            found.append(drawn)
    return found


def _goes_together(s: SetUp) -> bool:
    is_dealt = s.way in ("scores", "NVFlare", "run")
    is_correlated = s.mechanism in CORRELATED
    return not (
        (is_dealt and s.pattern not in ("one round", "three rounds"))
        or (s.way == "scores" and (s.pattern != "one round" or s.statistic or s.is_noise_told))
        or (is_correlated and (s.way not in ("log", "loop") or s.pattern != "one round"))
        or (s.way == "NVFlare" and (s.family != "rademacher" or s.inclusion != "coins"))
        or (s.way == "run" and (s.mechanism != "fixed" or s.inclusion != "coins"))
        or (s.pattern == "Poisson" and (s.claim != "epsilon" or s.statistic is not None))
        or (s.claim == "noise" and (s.pattern != "one round" or is_correlated))
    )


@dataclass(frozen=True)
class Found:
    """What the command says of one audit."""

    outcome: str
    canary_check: str | None
    p_value: float | None
    text: str


def audited(set_up: SetUp, seed: int) -> Found:
    system = set_up.system(seed)
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "audit"
        arguments = [*system.write(folder), *set_up.arguments(folder)]
        with system.kinds():
            found = ask(arguments)
    p_value = None if found.outcome == "refused" else json.loads(found.text)["verdict"]["p_value"]
    return Found(found.outcome, found.canary_check, p_value, found.text)


def audits(first: int, end: int) -> Iterator[tuple[SetUp, Found]]:
    """All audits of some of the hundred set-ups."""
    for number, set_up in enumerate(set_ups()[first:end], first):
        for each in range(SEEDS):
            yield set_up, audited(set_up, 1 + SEEDS * number + each)


if __name__ == "__main__":
    for set_up, found in audits(*map(int, sys.argv[1:3] or (0, 100))):
        p_value = "" if found.p_value is None else f"{found.p_value:.3g}"
        row = f"{set_up.words} | {found.outcome} | {found.canary_check} | {p_value}"
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
