"""Threat models, which say what attackers see of a run; registries; and the attackers of a run.

docs/threat_models.md defines this package's threat models. A new one, here or in another package,
is a module that calls `register_threat_model`; a new statistic of an existing threat model is a
module that calls `register_attacker`.
"""

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.attacker import AttackContext, Attacker
from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.attacks.statistics import Statistic
from fl_audit.config_tables.audit import Audit
from fl_audit.config_tables.kinds import Table
from fl_audit.errors import InputError, nearest
from fl_audit.registry import Registry


class Knowledge(enum.IntEnum):
    """What attackers know of a run, from least to most.

    The headline uses the attacker who knows most. This attacker is fixed before scores are seen: if
    the scores determined the choice, the bound would not be valid.
    """

    FINAL_MODEL = 1
    FIRST_AND_FINAL_MODEL = 2
    SOME_ROUNDS = 3
    SOME_MODELS = 4
    EVERY_ROUND = 5
    EVERY_ROUND_AND_PATTERN = 6
    EVERY_ROUND_AND_SCHEDULE = 7
    OWN_UPLOADS = 8


@dataclass(frozen=True)
class ThreatModel:
    """A threat model; docs/threat_models.md defines the terms.

    Attributes:
      name: The name in config and report.
      title: A few words for a heading.
      sees: A function from the table [audit] to words that continue "an attacker who sees".
      attackers: The classes of attackers, who compute the threat model's statistics.
      knows: How much the attacker knows, by which threat models are ordered.
      keys: The keys of [audit] that this threat model requires. A key that no chosen threat model
        lists is refused.
      rounds: A function from the table [audit] and the number of rounds to the rounds, from 0, in
        which a participant may be detected.
      is_about_sampling: Whether an analytical epsilon with amplification by sampling holds against
        the attacker; False if the attacker knows who was sampled.
      sees_uploads: Whether the attacker sees single uploads, against which a guarantee about sums
        does not protect.
      check: A function that raises a `ValueError` if the keys in [audit] contradict each other.
      check_rounds: A function that raises an `InputError` if [audit] does not fit the number of
        rounds.
    """

    name: str
    title: str
    sees: Callable[[Audit], str]
    attackers: tuple[type[Attacker], ...]
    knows: Knowledge
    keys: tuple[str, ...] = ()
    rounds: Callable[[Audit, int], range] = lambda _, num_rounds: range(num_rounds)
    is_about_sampling: bool = True
    sees_uploads: bool = False
    check: Callable[[Audit], None] = lambda audit: None
    check_rounds: Callable[[Audit, int], None] = lambda audit, num_rounds: None


# The registries, in the order in which entries are shown.


THREAT_MODELS = Registry[ThreatModel]("threat model")
STATISTICS = Registry[Statistic]("statistic")

ATTACKERS: list[type[Attacker]] = []


def register_threat_model(model: ThreatModel) -> ThreatModel:
    """Adds a threat model with its attackers and their statistics, and returns it."""
    THREAT_MODELS.register(model)
    for attacker in model.attackers:
        register_attacker(attacker)
    return model


def register_attacker(attacker: type[Attacker]) -> type[Attacker]:
    for statistic in attacker.statistics:
        register_statistic(statistic)
    ATTACKERS.append(attacker)
    return attacker


def register_statistic(statistic: Statistic) -> None:
    """Adds a statistic without its attacker, which may need TensorFlow."""
    if THREAT_MODELS.get(statistic.threat_model) is None:
        raise ValueError(
            f"statistic {statistic.name!r}: no threat model {statistic.threat_model!r} is "
            "registered"
        )
    if STATISTICS.get(statistic.name) != statistic:
        STATISTICS.register(statistic)


# The threat models of a run.


def threat_models_of(audit: Audit) -> tuple[ThreatModel, ...]:
    """The threat models that a run is audited under, in the order of registration."""
    return tuple(model for model in THREAT_MODELS.values() if model.name in audit.threat_models)


def check_rounds(audit: Audit, num_rounds: int, name: str) -> None:
    """Refuses threat models that do not fit the number of rounds, such as too long a window."""
    for model in threat_models_of(audit):
        try:
            model.check_rounds(audit, num_rounds)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error


def check_threat_models(audit: Audit, name: str) -> None:
    """Refuses unknown or repeated threat models, and keys that are missing or not allowed."""
    try:
        _check_named(audit)
        for model in THREAT_MODELS.values():
            _check_keys(audit, model)
        for model in threat_models_of(audit):
            model.check(audit)
    except ValueError as error:
        raise InputError(f"{name}: key `audit`: {error}") from error


def _check_named(audit: Audit) -> None:
    if not audit.threat_models:
        raise ValueError("threat_models must name at least one")
    for name in audit.threat_models:
        if name not in THREAT_MODELS:
            raise ValueError(f"threat_models: unknown {name!r}; {nearest(name, THREAT_MODELS)}")
        if audit.threat_models.count(name) > 1:
            raise ValueError(f"threat_models names '{name}' more than once")


def _check_keys(audit: Audit, model: ThreatModel) -> None:
    """Raises a `ValueError` if a needed key of [audit] is missing, or an unneeded key is set."""
    allowed = {key for other in threat_models_of(audit) for key in other.keys}
    for key in model.keys:
        if model.name in audit.threat_models and getattr(audit, key) is None:
            raise ValueError(f"threat model '{model.name}' needs {key}")
        if key not in allowed and getattr(audit, key) is not None:
            raise ValueError(f"{key} needs '{model.name}' in threat_models")


# The statistics of a run, by its canaries and threat models.


def statistics_of(canaries: Table, audit: Audit) -> tuple[Statistic, ...]:
    """The statistics that a run logs, in the order of threat models; none without canaries."""
    if getattr(canaries, "count", None) == 0:
        return ()
    return statistics_for(_kind(canaries), audit)


def statistics_for(kind: str, audit: Audit) -> tuple[Statistic, ...]:
    """The statistics of canaries of one kind, in the order of registered threat models."""
    return tuple(
        statistic
        for model in threat_models_of(audit)
        for statistic in STATISTICS.values()
        if (statistic.threat_model, statistic.canaries) == (model.name, kind)
    )


def check_scored(canaries: Table, audit: Audit) -> None:
    """Refuses a threat model without a statistic for a config's canaries."""
    kind = _kind(canaries)
    scored = [model.name for model in THREAT_MODELS.values() if kind in _kinds_of(model.name)]
    for model in audit.threat_models:
        if model not in scored:
            kinds = " and ".join(f"'{other}'" for other in _kinds_of(model))
            *others, last = (f"'{name}'" for name in scored)
            among = f"{', '.join(others)} and {last}" if others else last
            raise InputError(
                f"audit.threat_models: {model!r} is for canaries.kind {kinds}; canaries of "
                f"kind '{kind}' allow {among}"
            )


def _kind(canaries: Table) -> str:
    return str(canaries.__struct_config__.tag)


def _kinds_of(model: str) -> list[str]:
    """The kinds of canaries for which a threat model has statistics."""
    kinds = (s.canaries for s in STATISTICS.values() if s.threat_model == model)
    return list(dict.fromkeys(kinds))


def title_of(name: str) -> str:
    """The title of a statistic; its name if the statistic is not registered."""
    statistic = STATISTICS.get(name)
    return name if statistic is None else statistic.title


def meaning_of(name: str) -> str:
    """The meaning of a statistic; empty if the statistic is not registered."""
    statistic = STATISTICS.get(name)
    return "" if statistic is None else statistic.meaning


# The attackers of a run or a log, and their scores.


def make_attackers(
    context: AttackContext, statistics: Collection[Statistic]
) -> tuple[Attacker, ...]:
    """Makes the attackers who compute `statistics`; refuses a statistic with none or several."""
    names = {statistic.name for statistic in statistics}
    kinds = [kind for kind in ATTACKERS if names & {s.name for s in kind.statistics}]
    for statistic in statistics:
        _check_filled(statistic, kinds)
    return tuple(kind.from_context(context) for kind in kinds)


def _check_filled(statistic: Statistic, kinds: Sequence[type[Attacker]]) -> None:
    names = [kind.__name__ for kind in kinds if statistic.name in {s.name for s in kind.statistics}]
    if len(names) != 1:
        fillers = f"{' and '.join(names)} do" if names else "none does"
        raise InputError(
            f"audit.threat_models: exactly one registered attacker must fill the statistic "
            f"{statistic.name!r} of {statistic.threat_model!r}; {fillers}"
        )


def scores_of(
    attackers: Sequence[Attacker], final: Float32Array | None
) -> Mapping[str, FloatArray]:
    """Scores by statistic, each float64 of shape (num_canaries,), after the last round."""
    return {
        name: scores for attacker in attackers for name, scores in attacker.scores(final).items()
    }


def compared_by(
    attackers: Sequence[Attacker], final: Float32Array | None
) -> Mapping[str, ComparedVectors]:
    """The compared vectors by statistic, if known; to be called after `scores_of`."""
    return {
        name: compared
        for attacker in attackers
        for name, compared in attacker.compared_vectors(final).items()
    }
