"""fl_audit: an empirical privacy audit of a federated training run, during that run.

>>> from fl_audit import CanaryScores, estimate
>>> scores = CanaryScores(
...     included=[0.9, 1.4, 2.2, 1.1, 1.8], excluded=[-0.3, 0.4, 0.1, -0.8, 0.6]
... )
>>> result = estimate(scores, delta=1e-3, confidence=0.9, methods=["threshold_valid", "shift_fit"])
>>> for each in result.estimates:
...     print(each.method, each.kind, round(each.epsilon, 1))
threshold_valid lower_bound 0.9
shift_fit interval 13.3

The names below are imported on first use, so `import fl_audit` is fast; docs/api.md lists all
packages with public names.
"""

from typing import TYPE_CHECKING

from fl_audit.public_names import imported_when_used

if TYPE_CHECKING:
    from fl_audit.attacks import CanaryPool as CanaryPool
    from fl_audit.attacks import RoundScorer as RoundScorer
    from fl_audit.checks import MechanismWatch as MechanismWatch
    from fl_audit.checks import Promise as Promise
    from fl_audit.checks import replay_round as replay_round
    from fl_audit.config.file import load_config as load_config
    from fl_audit.estimators import METHODS as METHODS
    from fl_audit.estimators import CanaryScores as CanaryScores
    from fl_audit.estimators import Estimate as Estimate
    from fl_audit.estimators import estimate as estimate
    from fl_audit.formats.score_file import read_score_file as read_score_file
    from fl_audit.pipeline import continue_run as continue_run
    from fl_audit.pipeline import start_run as start_run
    from fl_audit.run.observers import RoundObserver as RoundObserver
    from fl_audit.verdict import Claim as Claim
    from fl_audit.verdict import reach_verdict as reach_verdict
    from fl_audit.version import __version__ as __version__

_ROOM_OF = {
    "METHODS": "estimators",
    "CanaryPool": "attacks",
    "CanaryScores": "estimators",
    "Claim": "verdict",
    "Estimate": "estimators",
    "MechanismWatch": "checks",
    "Promise": "checks",
    "RoundObserver": "run.observers",
    "RoundScorer": "attacks",
    "continue_run": "pipeline",
    "estimate": "estimators",
    "load_config": "config.file",
    "reach_verdict": "verdict",
    "read_score_file": "formats.score_file",
    "replay_round": "checks",
    "start_run": "pipeline",
    "__version__": "version",
}

__all__ = [*_ROOM_OF]  # noqa: PLE0604 - names, each a string


__getattr__ = imported_when_used(__name__, _ROOM_OF)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
