"""The statistics of a run: how canaries are scored, and what an attacker must see for it."""

from dataclasses import dataclass
from typing import Literal

from fl_audit.config import Config


@dataclass(frozen=True)
class Statistic:
    """One way to score canaries.

    Attributes:
      name: in file names, JSON keys and config keys.
      title: a few words for a heading.
      meaning: a sentence on the score, and on what the attacker sees.
      null: whether an excluded canary's law is known. A cosine with one vector has mean 0 and
        variance 1/dim; a maximum or a sum over rounds depends on how alike the rounds' aggregates
        are, and is compared with the excluded canaries.
    """

    name: str
    title: str
    meaning: str
    null: Literal["closed_form", "empirical"]


FINAL = Statistic(
    name="final",
    title="Final model",
    meaning="Cosine of the canary with the final model: the attacker sees nothing else.",
    null="closed_form",
)

FINAL_MINUS_INITIAL = Statistic(
    name="final_minus_initial",
    title="Final − initial",
    meaning=(
        "Cosine with the final minus the initial model: the attacker knows where training began."
    ),
    null="closed_form",
)

MAX = Statistic(
    name="max",
    title="Largest round",
    meaning=(
        "Largest cosine with the noised update of any round: the attacker sees every round, and "
        "looks for a canary that appears once."
    ),
    null="empirical",
)

SUM = Statistic(
    name="sum",
    title="Sum of rounds",
    meaning=(
        "Sum of the cosines with the noised updates of all rounds: the attacker sees every round, "
        "and looks for a canary that appears often."
    ),
    null="empirical",
)

ALL = (FINAL, FINAL_MINUS_INITIAL, MAX, SUM)
"""Every statistic that there is, in the order to show them."""


def statistics_of(config: Config) -> tuple[Statistic, ...]:
    """The statistics that a run of this config logs, in the order to show them."""
    del config  # every run logs the same today
    return ALL


_BY_NAME = {statistic.name: statistic for statistic in ALL}


def title_of(name: str) -> str:
    """The title of a statistic; its name where a report has one that is not known here."""
    return _BY_NAME[name].title if name in _BY_NAME else name


def meaning_of(name: str) -> str:
    """The meaning of a statistic; empty where a report has one that is not known here."""
    return _BY_NAME[name].meaning if name in _BY_NAME else ""
