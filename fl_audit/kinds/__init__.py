"""Kinds: the variants that a table of a config may be of, and what the project knows of each."""

from fl_audit.kinds.registry import Kind, Registry, registry_of
from fl_audit.kinds.table import Table

__all__ = ["Kind", "Registry", "Table", "registry_of"]
