"""Kinds: the variants of a config's tables, and what the project knows of each."""

from fl_audit.kinds.registry import Kind, Kinds, kinds_of
from fl_audit.kinds.table import Table

__all__ = ["Kind", "Kinds", "Table", "kinds_of"]
