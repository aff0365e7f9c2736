"""The config tables of canaries."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fl_audit.estimators.scores import Inclusion, check_inclusion
from fl_audit.kinds.table import OpenUnitFloat, PositiveInt, Table

_PoolSize = Annotated[int, Meta(ge=2, le=10_000_000)]


class Canaries(Table, frozen=True, tag_field="kind", tag="vectors"):
    """A pool of canary vectors, about half of which take part in training.

    Attributes:
      count: The size of the pool, included and excluded together; 0 trains without canaries and
        audits nothing, as a baseline for accuracy.
      max_per_round: The number of canaries that a round may hold on average. Each is an update as
        long as the model, and where they outnumber the real clients the model learns little.
      family: The law of the vectors.
      inclusion: How it is decided which canaries take part: `coins`, by a fair coin each (Steinke
        et al. Algorithm 1), which all methods allow; `unequal_coins`, by a coin each of another
        probability (Proposition 5.7); `pairs`, one of each two by a fair coin (appendix A); or
        `fixed_half`, half of them drawn at random (Andrew et al. section 5). What a method's proof
        does not cover is left out.
      inclusion_probability: The probability with which `unequal_coins` include a canary, other than
        0.5, which is that of all other ways.
      store: The place where gaussian vectors are kept, rounded to 16 bits a coordinate, instead of
        being made anew for every score; 2 x count x parameters bytes.
      store_path: The file of a store on disk; an existing one is used if it is of this pool. A
        relative path starts at the config file's folder.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("store_path",)

    count: Annotated[int, Meta(ge=0, le=10_000_000)]
    max_per_round: PositiveInt = 200
    family: Literal["gaussian", "rademacher", "hadamard", "dirac"] = "rademacher"
    inclusion: Inclusion = "coins"
    inclusion_probability: OpenUnitFloat | None = None
    store: Literal["none", "memory", "disk"] = "none"
    store_path: str | None = None

    def __post_init__(self) -> None:
        """Checks that there are two canaries to compare, or none."""
        if self.count == 1:
            raise ValueError("count must be at least 2, or 0 for no canaries, got 1")
        check_inclusion(self.inclusion, coin_probability(self))


class ExampleCanaries(Table, frozen=True, tag_field="kind", tag="examples"):
    """A pool of canaries that hold data and train on it as clients do (Steinke et al. section 6).

    Attributes:
      source: The source of the data: `in_distribution` takes examples of clients drawn at random,
        who are then no real clients; `mislabelled` takes the same with each label drawn uniformly
        from the wrong classes; `file` takes a user's own.
      count: The size of the pool, included and excluded together. Under `file` the default is all
        clients of the file, and this key takes the first so many of them.
      examples_per_canary: The number of examples of a canary; by default all those of one client.
        Under `file` the file decides it.
      path: The user's own file under `file`: for next-word tasks a CSV with the columns `client_id`
        and `text`, one sentence in each row; for images an NPZ file with the arrays `inputs`,
        `labels` and optionally `client_id`, or a CSV with the columns `client_id` and `label` and
        one column for each number of an input. A canary is all the rows of one client. A relative
        path starts at the config file's folder.
      max_per_round: The number of canaries that a round may hold on average.
      inclusion: How it is decided which canaries take part: `coins`, by a fair coin each (Steinke
        et al. Algorithm 1), which all methods allow; `unequal_coins`, by a coin each of another
        probability (Proposition 5.7); `pairs`, one of each two by a fair coin (appendix A); or
        `fixed_half`, half of them drawn at random (Andrew et al. section 5). What a method's proof
        does not cover is left out.
      inclusion_probability: The probability with which `unequal_coins` include a canary, other than
        0.5, which is that of all other ways.
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
