"""The base class of a config's tables, and the ranges of numbers in them."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

LARGEST_INT = 1_000_000_000
"""Largest integer of a key without another limit."""

PositiveInt = Annotated[int, Meta(ge=1, le=LARGEST_INT)]
NumRounds = Annotated[int, Meta(ge=1, le=1_000_000)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
PositiveFloat = Annotated[float, Meta(gt=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
OpenUnitFloat = Annotated[float, Meta(gt=0, lt=1)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a config, written under its name in brackets in the file.

    Attributes:
      path_keys: The keys of this table that name files; a relative path there starts at the config
        file's folder.
      refused_keys: Keys of related tables that this one cannot have, with the reason, a clause.
    """

    path_keys: ClassVar[tuple[str, ...]] = ()
    refused_keys: ClassVar[Mapping[str, str]] = {}
