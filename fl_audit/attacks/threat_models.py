"""Threat models: what an attacker sees of a run. docs/threat_models.md defines them."""

from dataclasses import dataclass

from fl_audit.config import Audit, Config
from fl_audit.config.audit import ThreatModelName
from fl_audit.errors import InputError


@dataclass(frozen=True)
class ThreatModel:
    """What an attacker sees of one run.

    Attributes:
      name: in config and report.
      title: a few words for a heading.
      sees: goes on from "an attacker who sees".
      rounds: first and last, from 1, of those whose participants the attacker may find; None for
        all rounds of the run.
    """

    name: ThreatModelName
    title: str
    sees: str
    rounds: tuple[int, int] | None = None


def threat_models_of(config: Config) -> tuple[ThreatModel, ...]:
    """The threat models that a run is audited under, from the weakest attacker on."""
    known = (
        ThreatModel("final", "Final model", "the final model alone"),
        ThreatModel(
            "final_and_initial", "Final and initial model", "the initial and the final model"
        ),
        ThreatModel("all_iterates", "All iterates", "the noised update of every round"),
        _checkpoints(config.audit),
        _window(config.audit),
    )
    return tuple(model for model in known if model.name in config.audit.threat_models)


def _checkpoints(audit: Audit) -> ThreatModel:
    every = "round" if audit.release_every == 1 else f"{audit.release_every} rounds"
    seen = f"the initial model, the one after every {every} and the final one"
    return ThreatModel("checkpoints", "Checkpoints", seen)


def _window(audit: Audit) -> ThreatModel:
    first, last = audit.window_first_round or 0, audit.window_last_round or 0
    seen = f"update of round {first}" if first == last else f"updates of rounds {first} to {last}"
    return ThreatModel("window", "Window", f"the noised {seen} alone", (first, last))


def check_rounds(audit: Audit, num_rounds: int, name: str) -> None:
    """Makes sure that the threat models fit a run of so many rounds.

    Args:
      audit: the config's table.
      num_rounds: of training.
      name: what to call the config in an error message.

    Raises:
      InputError: the window ends after the run, or no model between the first and the last is
        released.
    """
    last, every = audit.window_last_round, audit.release_every
    if last is not None and last > num_rounds:
        raise InputError(
            f"{name}: key `audit.window_last_round`: is {last} of {num_rounds} rounds; must be at "
            f"most {num_rounds}"
        )
    if every is not None and every >= num_rounds:
        raise InputError(
            f"{name}: key `audit.release_every`: is {every} of {num_rounds} rounds; must be less, "
            "as who sees no model between the first and the last is 'final_and_initial'"
        )
