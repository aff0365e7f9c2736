"""The simulated scores of canaries in their own rounds, beside those that `scores` draws."""

import dataclasses

import numpy as np

from fl_audit.attacks.compared_vectors import ANY_VECTOR
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.planning.drawn_scores import DrawnScores
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.scores import Rounds, cosine, product_deviation, shared_share
from fl_audit.planning.unknowns import Unknowns


def with_own_rounds(
    drawn: DrawnScores,
    run: PlannedRun,
    unknowns: Unknowns,
    rounds: Rounds,
    random: np.random.Generator,
) -> DrawnScores:
    """Adds one trial's scores on `own_rounds`, drawn independently of the others.

    A canary is compared with the rounds that it is dealt, included or not: with one the score is
    the cosine there, with n the sum of the cosines over sqrt(n).

    Args:
      drawn: The scores on the other statistics.
      run: The planned run.
      unknowns: How real clients behave.
      rounds: The rounds of the same trial.
      random: Source of random numbers.
    """
    canary, number = run.dealt
    is_in = run.included[canary]
    others = run.canaries - 1.0
    deviation = np.where(
        is_in,
        product_deviation(run, rounds, np.maximum(others, 0.0))[number],
        product_deviation(run, rounds, others + 1)[number],
    )
    share = shared_share(run, unknowns, rounds)[number]
    noise = np.sqrt(share) * random.standard_normal(run.num_canaries)[canary]
    noise += np.sqrt(1 - share) * random.standard_normal(len(canary))
    cosines = cosine(is_in + deviation * noise, rounds.norm[number])
    counts = np.bincount(canary, minlength=run.num_canaries)
    total = np.bincount(canary, cosines, minlength=run.num_canaries)
    nowhere = random.standard_normal(run.num_canaries) / np.sqrt(run.task.dim)
    scores = np.where(counts > 0, total / np.sqrt(np.maximum(counts, 1)), nowhere)
    own = run.canary_scores(scores)
    one = {OWN_ROUNDS.name: ANY_VECTOR} if counts.max(initial=0) <= 1 else {}
    return dataclasses.replace(
        drawn,
        scores={**drawn.scores, OWN_ROUNDS.name: own},
        compared={**drawn.compared, **one},
    )
