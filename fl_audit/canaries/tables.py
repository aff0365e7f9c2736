"""The config tables of canaries."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fl_audit.canaries.example_data import Design
from fl_audit.config_tables.table import OpenUnitFloat, PositiveInt, Table
from fl_audit.estimators.scores import Inclusion, check_inclusion

_PoolSize = Annotated[int, Meta(ge=2, le=10_000_000)]


class Canaries(Table, frozen=True, tag_field="kind", tag="vectors"):
    """Canaries that are random vectors; about half are included in training.

    Attributes:
      count: Canaries, included and excluded; 0 for a baseline.
      max_per_round: Most canaries in a round, on average.
      family: Distribution of the vectors (docs/canaries.md).
      inclusion: Who is included (docs/canaries.md).
      inclusion_probability: Probability of `unequal_coins`, not 0.5.
      store: Where `gaussian` vectors are cached: 2 x count x parameters bytes.
      store_path: File of a cache on disk.
      arms: Two ways or more to participate, in place of `participation.canaries`
        (docs/patterns.md).
    """

    path_keys: ClassVar[tuple[str, ...]] = ("store_path",)

    count: Annotated[int, Meta(ge=0, le=10_000_000)]
    max_per_round: PositiveInt = 200
    family: Literal["gaussian", "rademacher", "hadamard", "dirac"] = "rademacher"
    inclusion: Inclusion = "coins"
    inclusion_probability: OpenUnitFloat | None = None
    store: Literal["none", "memory", "disk"] = "none"
    store_path: str | None = None
    arms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.count == 1:
            raise ValueError("count must be at least 2, or 0 for no canaries, got 1")
        check_inclusion(self.inclusion, coin_probability(self))
        if len(self.arms) == 1 or len(set(self.arms)) < len(self.arms):
            raise ValueError("arms must be two different ones or more, or left out")
        if self.arms and self.inclusion == "pairs":
            raise ValueError("arms do not go with inclusion 'pairs', whose two have to be alike")


class ExampleCanaries(Table, frozen=True, tag_field="kind", tag="examples"):
    """Canaries that hold data and train on it as clients do (Steinke et al. 2023, section 6).

    Attributes:
      source: Where their data come from (docs/canaries.md).
      count: Canaries, included and excluded; for `file` by default all its clients.
      examples_per_canary: Examples per canary; by default all of one client's (`random`: the
        median client's number).
      path: The CSV or NPZ of `source = "file"`.
      design: Numbers of `random` inputs: `signs` (plus and minus the data's largest, the default),
        or `in_range` (its smallest and largest).
      max_per_round: Most canaries in a round, on average.
      inclusion: Who is included (docs/canaries.md).
      inclusion_probability: Probability of `unequal_coins`, not 0.5.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    source: Literal["random", "mislabelled", "in_distribution", "file"]
    count: _PoolSize | None = None
    examples_per_canary: PositiveInt | None = None
    path: str | None = None
    design: Design | None = None
    max_per_round: PositiveInt = 200
    inclusion: Inclusion = "coins"
    inclusion_probability: OpenUnitFloat | None = None

    def __post_init__(self) -> None:
        check_inclusion(self.inclusion, coin_probability(self))
        if self.design is not None and self.source != "random":
            raise ValueError(f"design goes with source 'random', not {self.source!r}")
        if self.source == "file":
            if self.path is None:
                raise ValueError("source 'file' needs path, the file")
            if self.examples_per_canary is not None:
                raise ValueError("source 'file' takes no examples_per_canary: the file says it")
        elif self.path is not None:
            raise ValueError(f"path goes with source 'file', not {self.source!r}")
        elif self.count is None:
            raise ValueError(f"source {self.source!r} needs count")


AnyCanaries = Canaries | ExampleCanaries


def coin_probability(canaries: AnyCanaries) -> float:
    """The probability with which a canary is included; 1/2 unless the table states another."""
    stated = canaries.inclusion_probability
    return 0.5 if stated is None else stated


def family_of(canaries: Table) -> str | None:
    """The family of canaries that are vectors, otherwise None."""
    return canaries.family if isinstance(canaries, Canaries) else None
