"""What every table of a config is, and the ranges of numbers in it."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

PositiveInt = Annotated[int, Meta(ge=1)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
PositiveFloat = Annotated[float, Meta(gt=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
OpenUnitFloat = Annotated[float, Meta(gt=0, lt=1)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is in brackets in the file.

    Attributes:
      path_keys: Keys of this table that name files; a relative path there starts at the config
        file's folder.
    """

    path_keys: ClassVar[tuple[str, ...]] = ()
