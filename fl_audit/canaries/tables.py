"""The config tables of canaries."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fl_audit.config_tables.table import OpenUnitFloat, PositiveInt, Table
from fl_audit.estimators.scores import Inclusion, check_inclusion

_PoolSize = Annotated[int, Meta(ge=2, le=10_000_000)]


class Canaries(Table, frozen=True, tag_field="kind", tag="vectors"):
    """Canaries that are random vectors; about half are included in training.

    Attributes:
      count: Number of canaries, included and excluded; 0 for a baseline.
      max_per_round: Most canaries in a round, on average. Where they outnumber real clients, the
        model learns little.
      family: Distribution of the vectors.
      inclusion: How canaries are included (docs/canaries.md). `coins`: by a fair coin each, which
        every method allows; `unequal_coins`: by coins of another probability; `pairs`: one of each
        two; `fixed_half`: a random half.
      inclusion_probability: Inclusion probability of `unequal_coins`, other than 0.5.
      store: Where `gaussian` vectors are cached at 16 bits a coordinate, instead of being generated
        for every score: 2 x count x parameters bytes.
      store_path: File of a store on disk; reused if it holds these canaries.
      arms: Two ways or more to participate, to which canaries are assigned at random in place of
        what `[participation]` says of canaries: `once`, `repeats:N`, `each_epoch:E`, `poisson:Q`,
        `min_separation:B`, `late:R`, `every_round`. The report compares them.
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
        """Checks that there are two canaries to compare, or none."""
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
      source: `in_distribution`: examples of random clients, who are then no real clients.
        `mislabelled`: the same, each with a random wrong label. `file`: `path`.
      count: Number of canaries, included and excluded. Under `file`: the first so many clients, by
        default all.
      examples_per_canary: Examples per canary; by default all of one client's. Not with `file`.
      path: The file under `source = "file"`; the rows of one client are a canary. Next-word tasks:
        CSV with `client_id` and `text`, a sentence per row. Images: NPZ with `inputs`, `labels` and
        optionally `client_id`, or CSV with `client_id`, `label` and a column per input number.
      max_per_round: Most canaries in a round, on average. Where they outnumber real clients, the
        model learns little.
      inclusion: How canaries are included (docs/canaries.md). `coins`: by a fair coin each, which
        every method allows; `unequal_coins`: by coins of another probability; `pairs`: one of each
        two; `fixed_half`: a random half.
      inclusion_probability: Inclusion probability of `unequal_coins`, other than 0.5.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    source: Literal["mislabelled", "in_distribution", "file"]
    count: _PoolSize | None = None
    examples_per_canary: PositiveInt | None = None
    path: str | None = None
    max_per_round: PositiveInt = 200
    inclusion: Inclusion = "coins"
    inclusion_probability: OpenUnitFloat | None = None

    def __post_init__(self) -> None:
        """Checks which keys go with the source."""
        check_inclusion(self.inclusion, coin_probability(self))
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
    """The probability with which a canary is included, 1/2 unless the table says another.

    Args:
      canaries: The table [canaries] of a config.
    """
    stated = canaries.inclusion_probability
    return 0.5 if stated is None else stated


def family_of(canaries: Table) -> str | None:
    """The family of canaries that are vectors; None of others.

    Args:
      canaries: The table [canaries] of a config.
    """
    return canaries.family if isinstance(canaries, Canaries) else None
