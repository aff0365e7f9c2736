"""The report's table of what attackers see."""

from dataclasses import dataclass

from fl_audit.attacks.statistics import title_of
from fl_audit.report.model import Report


@dataclass(frozen=True)
class ThreatModelRow:
    """What one attacker sees.

    Attributes:
      title: of the threat model.
      sees: in words.
      statistics: titles of its statistics.
      included: canaries that took part in the rounds that it sees, of those that are included.
      sees_all: whether these are all.
    """

    title: str
    sees: str
    statistics: tuple[str, ...]
    included: str
    sees_all: bool


def threat_model_rows(report: Report) -> list[ThreatModelRow]:
    """A row per threat model, in the order of the statistics."""
    titles: dict[str, list[str]] = {}
    for name, statistic in report.statistics.items():
        titles.setdefault(statistic.threat_model, []).append(title_of(name))
    num_included = report.run.num_included
    models = {name: report.threat_models[name] for name in titles}
    return [
        ThreatModelRow(
            title=model.title,
            sees=model.sees,
            statistics=tuple(titles[name]),
            included=f"{model.num_included_in_rounds:,} of {num_included:,}",
            sees_all=model.num_included_in_rounds == num_included,
        )
        for name, model in models.items()
    ]
