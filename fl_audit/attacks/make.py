"""Makes the attackers for the statistics of a run or a log, and collects their scores."""

from collections.abc import Collection, Mapping, Sequence

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.attacker import Attacker
from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.attacks.context import AttackContext
from fl_audit.attacks.registry import attackers
from fl_audit.attacks.statistic import Statistic
from fl_audit.errors import InputError


def make_attackers(
    context: AttackContext, statistics: Collection[Statistic]
) -> tuple[Attacker, ...]:
    """Makes the attackers who compute some statistics, after a check that each has one attacker.

    Args:
      context: The run or log that is attacked.
      statistics: The statistics that are asked for.

    Raises:
      InputError: No attacker or more than one computes a statistic, or a file that an attacker
        should have written is missing or damaged.
    """
    asked = {statistic.name for statistic in statistics}
    kinds = [kind for kind in attackers() if asked & {s.name for s in kind.statistics}]
    for statistic in statistics:
        _check_filled(statistic, kinds)
    return tuple(kind.of(context) for kind in kinds)


def _check_filled(statistic: Statistic, kinds: Sequence[type[Attacker]]) -> None:
    names = [kind.__name__ for kind in kinds if statistic.name in {s.name for s in kind.statistics}]
    if len(names) != 1:
        found = f"{' and '.join(names)} do" if names else "none does"
        raise InputError(
            f"audit.threat_models: exactly one registered attacker must fill the statistic "
            f"{statistic.name!r} of {statistic.threat_model!r}; {found}"
        )


def scores_of(
    attackers: Sequence[Attacker], final: Float32Array | None
) -> Mapping[str, FloatArray]:
    """The scores by statistic, each float64 of shape (num_canaries,), after the last round.

    Args:
      attackers: The attackers, who have seen all rounds.
      final: The trained model, float32 of shape (dim,); None for a log without one.
    """
    return {
        name: scores for attacker in attackers for name, scores in attacker.scores(final).items()
    }


def compared_by(
    attackers: Sequence[Attacker], final: Float32Array | None
) -> Mapping[str, ComparedVectors]:
    """What is known of the vectors behind the scores, by statistic, where anything is known.

    Args:
      attackers: The attackers, whose scores have been asked for.
      final: The trained model as for `scores_of`.
    """
    return {
        name: compared
        for attacker in attackers
        for name, compared in attacker.compared_vectors(final).items()
    }
