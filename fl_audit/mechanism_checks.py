"""The name that `fl_audit.checks` had before: what programs import from here is found there."""

from fl_audit import checks
from fl_audit.checks import *  # noqa: F403

__all__ = checks.__all__
