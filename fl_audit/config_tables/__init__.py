"""Tables of a config: their base class, the kinds of each, and plugins that register more kinds."""

from fl_audit.config_tables.kinds import Kind, Kinds, Table, kinds_of

__all__ = ["Kind", "Kinds", "Table", "kinds_of"]
