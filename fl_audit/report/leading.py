"""Which statistic leads: the first one of the strongest attacker, whatever the scores."""

from collections.abc import Mapping

from fl_audit.attacks.registry import STATISTICS
from fl_audit.report.statistic_model import StatisticReport
from fl_audit.verdict.bearing import is_about_sampling

_STRONGEST_FIRST = (
    "known_rounds",
    "all_iterates",
    "checkpoints",
    "window",
    "final_and_initial",
    "final",
)
"""Names of threat models; scores must not decide which one leads, or its bound would not hold."""


def strongest_first(
    statistics: Mapping[str, StatisticReport], is_sampled: bool = False
) -> list[str]:
    """The first statistic of every threat model by name, that of the strongest attacker first.

    Args:
      statistics: The statistics by name.
      is_sampled: Whether sampling decides who takes part, which an attacker who knows who was
        sampled undoes; such attackers are then left out if there is another.
    """
    first: dict[str, str] = {}
    for name, made in _hidden_from(statistics, is_sampled).items():
        first.setdefault(made.threat_model, name)
    return sorted(first.values(), key=lambda name: _place(statistics[name]))


def leading(
    statistics: Mapping[str, StatisticReport], is_sampled: bool
) -> tuple[str, StatisticReport]:
    """The first statistic of the strongest attacker, and its name, as `strongest_first` has it."""
    return min(_hidden_from(statistics, is_sampled).items(), key=lambda pair: _place(pair[1]))


def _hidden_from(
    statistics: Mapping[str, StatisticReport], is_sampled: bool
) -> Mapping[str, StatisticReport]:
    """The statistics of attackers who do not know who was sampled, where anybody was and any do."""
    known = {name: made for name, made in statistics.items() if not is_sampled or _hides(name)}
    return known or statistics


def _place(made: StatisticReport) -> int:
    """The place of a statistic's attacker among the strongest; unknown ones are behind."""
    order = _STRONGEST_FIRST
    return order.index(made.threat_model) if made.threat_model in order else len(order)


def _hides(name: str) -> bool:
    statistic = STATISTICS.get(name)
    return statistic is None or is_about_sampling(statistic)
