"""The statistics of a run: how canaries are scored, and what an attacker must see for it."""

import dataclasses
from dataclasses import dataclass
from typing import Literal, get_args

from fl_audit.config import AnyCanaries, Config, ExampleCanaries
from fl_audit.config.audit import ThreatModelName


@dataclass(frozen=True)
class Statistic:
    """One way to score canaries.

    Attributes:
      name: in file names, JSON keys and config keys.
      title: a few words for a heading.
      meaning: a sentence on the score, and on what the attacker sees.
      threat_model: what the attacker sees.
      null: whether an excluded canary's law is known. A cosine with one vector has mean 0 and
        variance 1/dim; a maximum or a sum over several depends on how alike they are, and is
        compared with the excluded canaries.
    """

    name: str
    title: str
    meaning: str
    threat_model: ThreatModelName
    null: Literal["closed_form", "empirical"]


FINAL = Statistic(
    name="final",
    title="Final model",
    meaning="Cosine of the canary with the final model: the attacker sees nothing else.",
    threat_model="final",
    null="closed_form",
)

FINAL_MINUS_INITIAL = Statistic(
    name="final_minus_initial",
    title="Final − initial",
    meaning=(
        "Cosine with the final minus the initial model: the attacker knows where training began."
    ),
    threat_model="final_and_initial",
    null="closed_form",
)

MAX = Statistic(
    name="max",
    title="Largest round",
    meaning=(
        "Largest cosine with the noised update of any round: the attacker sees every round, and "
        "looks for a canary that appears once."
    ),
    threat_model="all_iterates",
    null="empirical",
)

SUM = Statistic(
    name="sum",
    title="Sum of rounds",
    meaning=(
        "Sum of the cosines with the noised updates of all rounds: the attacker sees every round, "
        "and looks for a canary that appears often."
    ),
    threat_model="all_iterates",
    null="empirical",
)

CHECKPOINTS_MAX = Statistic(
    name="checkpoints_max",
    title="Largest step",
    meaning=(
        "Largest cosine with the difference of two models released one after the other: the "
        "attacker sees a model now and then, and looks for a canary that appears once."
    ),
    threat_model="checkpoints",
    null="empirical",
)

CHECKPOINTS_SUM = Statistic(
    name="checkpoints_sum",
    title="Sum of steps",
    meaning=(
        "Sum of the cosines with the differences of models released one after the other: the "
        "attacker sees a model now and then, and looks for a canary that appears often."
    ),
    threat_model="checkpoints",
    null="empirical",
)

WINDOW_MAX = Statistic(
    name="window_max",
    title="Largest in window",
    meaning=(
        "Largest cosine with the noised update of a round of the window: the attacker joined late "
        "or left early. A canary that took part in other rounds only counts as included."
    ),
    threat_model="window",
    null="empirical",
)

WINDOW_SUM = Statistic(
    name="window_sum",
    title="Sum in window",
    meaning=(
        "Sum of the cosines with the noised updates of the window’s rounds: the attacker joined "
        "late or left early. A canary that took part in other rounds only counts as included."
    ),
    threat_model="window",
    null="empirical",
)

FINAL_LOSS = Statistic(
    name="final_loss",
    title="Final loss",
    meaning=(
        "Minus the final model’s loss on the canary’s data: the attacker may query that model, and "
        "nothing else."
    ),
    threat_model="final",
    null="empirical",
)

LOSS_DIFFERENCE = Statistic(
    name="loss_difference",
    title="Loss difference",
    meaning=(
        "The initial model’s loss on the canary’s data minus the final one’s: the attacker may "
        "query both (Steinke et al., black box)."
    ),
    threat_model="final_and_initial",
    null="empirical",
)

WHITE_BOX = Statistic(
    name="white_box",
    title="White box, sum",
    meaning=(
        "Sum over all rounds of the inner product of what the canary would send, clipped, with the "
        "noised update: the attacker sees every round (Steinke et al., white box)."
    ),
    threat_model="all_iterates",
    null="empirical",
)

WHITE_BOX_MAX = Statistic(
    name="white_box_max",
    title="White box, largest",
    meaning=("Largest of these inner products: the attacker looks for a canary that appears once."),
    threat_model="all_iterates",
    null="empirical",
)

OF_VECTORS = (
    FINAL,
    FINAL_MINUS_INITIAL,
    MAX,
    SUM,
    CHECKPOINTS_MAX,
    CHECKPOINTS_SUM,
    WINDOW_MAX,
    WINDOW_SUM,
)
"""Of canaries that are vectors, under any threat model."""

OF_EXAMPLES = (FINAL_LOSS, LOSS_DIFFERENCE, WHITE_BOX, WHITE_BOX_MAX)
"""Of canaries that hold examples."""

ALL = OF_VECTORS + OF_EXAMPLES
"""Every statistic that there is, in the order to show them."""


def statistics_of(config: Config) -> tuple[Statistic, ...]:
    """The statistics that a run of this config logs, from the weakest attacker on."""
    logged = (
        _in_run(statistic, config)
        for statistic in _scored_by(config.canaries)
        if statistic.threat_model in config.audit.threat_models
    )
    return tuple(sorted(logged, key=lambda statistic: _ORDER.index(statistic.threat_model)))


def _scored_by(canaries: AnyCanaries) -> tuple[Statistic, ...]:
    """The statistics for canaries of a kind, under any threat model."""
    return OF_EXAMPLES if isinstance(canaries, ExampleCanaries) else OF_VECTORS


def _in_run(statistic: Statistic, config: Config) -> Statistic:
    """A statistic with what this run knows of its null: a window of one round is one vector."""
    audit = config.audit
    is_one_round = audit.window_first_round == audit.window_last_round
    if statistic.threat_model == "window" and is_one_round:
        return dataclasses.replace(statistic, null="closed_form")
    return statistic


_ORDER = get_args(ThreatModelName)
_BY_NAME = {statistic.name: statistic for statistic in ALL}


def title_of(name: str) -> str:
    """The title of a statistic; its name where a report has one that is not known here."""
    return _BY_NAME[name].title if name in _BY_NAME else name


def meaning_of(name: str) -> str:
    """The meaning of a statistic; empty where a report has one that is not known here."""
    return _BY_NAME[name].meaning if name in _BY_NAME else ""
