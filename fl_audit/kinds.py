"""The name that `fl_audit.config_tables` had before, which plugins may import from."""

from fl_audit import config_tables
from fl_audit.config_tables import *  # noqa: F403

__all__ = config_tables.__all__
