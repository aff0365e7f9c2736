"""The statistics of a run, by its canaries and threat models."""

from typing import TYPE_CHECKING

from fl_audit.attacks.registry import STATISTICS, THREAT_MODELS
from fl_audit.attacks.statistic import Statistic
from fl_audit.attacks.threat_models import threat_models_of
from fl_audit.errors import InputError
from fl_audit.kinds.table import Table

if TYPE_CHECKING:
    from fl_audit.attacks.audit_table import Audit


def statistics_of(canaries: Table, audit: "Audit") -> tuple[Statistic, ...]:
    """The statistics that a run logs, from the weakest attacker on; none without canaries.

    Args:
      canaries: The table [canaries] of its config.
      audit: The table [audit] of its config.
    """
    if getattr(canaries, "count", None) == 0:
        return ()
    return statistics_for(_kind(canaries), audit)


def statistics_for(kind: str, audit: "Audit") -> tuple[Statistic, ...]:
    """The statistics of canaries of a kind, from the weakest attacker on.

    Args:
      kind: The kind of canaries, as in `canaries.kind`.
      audit: The table [audit] of the config; the default one for a log.
    """
    return tuple(
        statistic
        for model in threat_models_of(audit)
        for statistic in STATISTICS
        if (statistic.threat_model, statistic.canaries) == (model.name, kind)
    )


def check_scored(canaries: Table, audit: "Audit") -> None:
    """Checks that every threat model has a statistic for the canaries of a config.

    Args:
      canaries: The table [canaries] of the config.
      audit: The table [audit] of the config.

    Raises:
      InputError: A threat model has no statistic for these canaries.
    """
    kind = _kind(canaries)
    scored = [model.name for model in THREAT_MODELS if kind in _kinds_of(model.name)]
    for model in audit.threat_models:
        if model not in scored:
            kinds = " and ".join(f"'{other}'" for other in _kinds_of(model))
            *others, last = (f"'{name}'" for name in scored)
            among = f"{', '.join(others)} and {last}" if others else last
            raise InputError(
                f"audit.threat_models: {model!r} is for canaries.kind {kinds}; must be among "
                f"{among} for '{kind}'"
            )


def _kind(canaries: Table) -> str:
    return str(canaries.__struct_config__.tag)


def _kinds_of(model: str) -> list[str]:
    """The kinds of canaries that a threat model has statistics of."""
    kinds = (s.canaries for s in STATISTICS if s.threat_model == model)
    return list(dict.fromkeys(kinds))


def title_of(name: str) -> str:
    """The title of a statistic; its name if the statistic is not registered."""
    statistic = STATISTICS.get(name)
    return name if statistic is None else statistic.title


def meaning_of(name: str) -> str:
    """The meaning of a statistic; empty if the statistic is not registered."""
    statistic = STATISTICS.get(name)
    return "" if statistic is None else statistic.meaning
