"""The number of canaries needed to distinguish participation patterns, before training.

The patterns are the arms of a config, or the patterns of several configs. Each attacker's scores
are simulated at `MIDDLE` (predicted_background.py), for many more canaries than in a run. This
gives the AUC of each pattern, and the standard deviation s of one canary's contribution to the AUC.
With k canaries of each pattern, two patterns differ beyond chance (`report.patterns`) in 80 % of
audits if their AUCs differ by z sqrt((s1^2 + s2^2) / k). Here z is the sum of the normal quantiles
of the simultaneous confidence and of 80 %.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse, special

from fl_audit.array_types import BoolArray
from fl_audit.attacks.secret_rounds import LIKELIHOOD_RATIO, known_patterns, whitening
from fl_audit.attacks.threat_models import STATISTICS, statistics_of
from fl_audit.canaries.canary_tables import coin_probability
from fl_audit.errors import InputError
from fl_audit.estimators import CanaryScores
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.predicted_background import (
    MIDDLE,
    predicted_background,
    predicted_products,
)
from fl_audit.planning.prediction import predicted_statistics, simulated_audits
from fl_audit.report.patterns import Detection, PatternAttacker, area, pattern_attackers
from fl_audit.verdict import Background
from fl_audit.verdict.power import ENOUGH_POWER

_CANARIES = 40_000
"""The number of canaries simulated for each pattern."""

_SURE = 4.0
"""Simulated AUCs whose difference is below this many standard errors count as equal."""

_MOST = 10_000_000
"""Above this number of canaries, `None` is reported."""

_CHUNK = 4_000_000
"""The number of scores (canaries times rounds) simulated at once: 32 MB."""


@dataclass(frozen=True)
class PatternPair:
    """A pattern, compared with the one that leaks least to the same attacker.

    Attributes:
      attacker: The attacker in words.
      canaries: The number of canaries of each pattern with which the two patterns differ beyond
        chance in 80 % of audits; None if the patterns do not differ in the simulation, or if more
        than ten million canaries are needed.
      share: `canaries`, divided by the number of canaries that one run has of the smaller pattern.
    """

    attacker: str
    least: str
    more: str
    auc_least: float
    auc_more: float
    canaries: int | None
    share: float | None


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Canaries of one pattern in a planned run, marked by `is_of`: all canaries, or one arm's."""

    label: str
    run: PlannedRun
    background: Background
    is_of: BoolArray

    def detection(self, name: str) -> Detection | None:
        """The detection by a statistic, with one canary's deviation; None without a simulation."""
        if name == LIKELIHOOD_RATIO.name:
            logged = statistics_of(self.run.config.canaries, self.run.config.audit)
            scores = self._likelihood_ratios() if LIKELIHOOD_RATIO in logged else None
        else:
            known = {statistic.name for statistic in predicted_statistics(self.run.config)}
            scores = self._simulated(name) if name in known else None
        if scores is None:
            return None
        middle, deviation = area(scores)
        number = scores.num_included + scores.num_excluded
        return Detection(self.label, None, None, middle, deviation * math.sqrt(number))

    def _likelihood_ratios(self) -> CanaryScores:
        """Likelihood ratios of whitened scores.

        Noise and other participants determine a canary's shift in a round. Whitening removes what
        the aggregates of different rounds have in common.
        """
        arm, background = self.label if self.run.arms else "", self.background
        pattern = known_patterns(self.run.release, self.run.arms)[arm]
        lengths = background.aggregate_lengths / background.client_lengths
        whitened = np.diag(math.sqrt(background.dim) / lengths)
        factor = whitening(predicted_products(self.run, MIDDLE, background))
        if factor is not None:
            whitened = linalg.solve_triangular(factor, whitened, lower=True)
        random, seen = np.random.default_rng([9, pattern.rounds]), background.rounds
        size, scores = max(_CHUNK // pattern.rounds, 1), []
        included: list[BoolArray] = []
        coin = coin_probability(self.run.pool)
        for start in range(0, _CANARIES, size):
            number = min(size, _CANARIES - start)
            present = pattern.sampling.draw(pattern.rounds, number, random)
            included.append(np.diff(np.ceil(coin * np.arange(number + 1))) > 0)
            present &= included[-1]
            signal = (sparse.csr_array(present[seen].T.astype(np.float64)) @ whitened.T).T
            z = random.standard_normal(signal.shape) + signal
            scores.append(pattern.log_ratios(z, seen))
        ratios, is_included = np.concatenate(scores), np.concatenate(included)
        return CanaryScores(ratios[is_included], ratios[~is_included])

    def _simulated(self, name: str) -> CanaryScores:
        statistic, run = STATISTICS[name], self.run
        trials = -(-_CANARIES // int(self.is_of.sum()))
        audits = list(simulated_audits(run, self.background, statistic, trials))
        chosen = self.is_of[run.included]
        included = np.concatenate([audit.scores.included[chosen] for audit in audits])
        excluded = np.concatenate([audit.scores.excluded for audit in audits])
        coin = coin_probability(run.pool)  # the share of included canaries in a run
        number = min(len(included) / coin, len(excluded) / (1 - coin))
        num_included = round(number * coin)
        return CanaryScores(included[:num_included], excluded[: round(number) - num_included])


def pattern_pairs(
    run: PlannedRun, others: Sequence[tuple[str, PlannedRun]]
) -> tuple[PatternPair, ...]:
    """Each pattern against the one that leaks least, by attacker; empty with one pattern."""
    patterns = [
        pattern
        for label, planned in (("the config", run), *others)
        for pattern in _patterns_of(label, planned)
    ]
    if len(patterns) < 2:
        return ()
    attackers = pattern_attackers(len(patterns), lambda i, name: patterns[i].detection(name))
    pairs = len(attackers) * math.comb(len(patterns), 2)
    level = (1 - run.config.audit.confidence) / max(pairs, 1)
    reach = float(special.ndtri(ENOUGH_POWER) - special.ndtri(level / 2))
    return tuple(
        itertools.chain.from_iterable(
            _against_least(attacker, reach, [int(p.is_of.sum()) for p in patterns])
            for attacker in attackers
        )
    )


def _patterns_of(label: str, run: PlannedRun) -> list[_Pattern]:
    background = predicted_background(run, MIDDLE)
    if not run.arms:
        return [_Pattern(label, run, background, np.ones(run.num_canaries, bool))]
    arms = np.array(run.arms)
    for arm in dict.fromkeys(run.arms):
        if not run.included[arms == arm].any():
            raise InputError(
                f"canaries.arms: the coins include no canary of arm {arm!r}; use more canaries "
                "(canaries.count)"
            )
    return [_Pattern(arm, run, background, arms == arm) for arm in dict.fromkeys(run.arms)]


def _against_least(
    attacker: PatternAttacker, reach: float, sizes: Sequence[int]
) -> list[PatternPair]:
    found = list(zip(attacker.detections, sizes, strict=True))
    least, size = min(found, key=lambda pair: pair[0].auc)
    pairs = []
    for more, of_more in found:
        if more is least:
            continue
        gap = more.auc - least.auc
        spread = math.hypot(*(d.deviation * d.auc * (1 - d.auc) for d in (more, least)))
        needed = math.ceil((reach * spread / gap) ** 2) if gap > 0 else _MOST + 1
        is_apart = gap > _SURE * spread / math.sqrt(_CANARIES) and needed <= _MOST
        canaries = needed if is_apart else None
        share = None if canaries is None else canaries / min(size, of_more)
        pair = (attacker.words, least.label, more.label, least.auc, more.auc)
        pairs.append(PatternPair(*pair, canaries, share))
    return pairs
