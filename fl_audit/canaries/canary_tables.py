"""The config tables of canaries, and the data of canaries that hold examples.

Data made here is a client's with wrong labels, or random. A model cannot learn wrong labels from
other data. The update of a client with random inputs has little in common with other updates, so it
is visible in a sum of many. Random data is drawn independently for each canary, as in Pillutla et
al. (2023, arXiv:2305.18447). Random data does not depend on a model: noise moves a model far from a
public checkpoint within a few rounds, and data optimised for the checkpoint loses its effect.
"""

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fl_audit.canaries.pool import pair_names
from fl_audit.config_tables.kinds import OpenUnitFloat, PositiveInt, Table
from fl_audit.estimators.scores import Inclusion, check_inclusion
from fl_audit.formats.score_file import ScoreFile

Design = Literal["signs", "in_range"]
"""The two values of an input's entries: plus and minus the data's largest magnitude, which gives
mean 0 and little correlation, or the data's extreme values, which pass a client's range check.
"""


def random_inputs(
    like: npt.NDArray[np.float32], design: Design, count: int, random: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Inputs with each entry one of two values, by a fair coin; float32 of shape (count, ...).

    >>> data, random = np.float32([[0, 0.5, 1]]), np.random.default_rng(0)
    >>> random_inputs(data, "in_range", 2, random).tolist()
    [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    >>> random_inputs(data, "signs", 1, random).tolist()
    [[-1.0, -1.0, -1.0]]
    """
    largest = np.abs(like).max()
    low, high = (-largest, largest) if design == "signs" else (like.min(), like.max())
    is_high = random.integers(0, 2, (count, *like.shape[1:])) == 1
    return np.where(is_high, high, low).astype(np.float32)


def random_sentences(
    like: npt.NDArray[Any], words: npt.NDArray[np.int32], count: int, random: np.random.Generator
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Sentences of words drawn uniformly, the limit of a language model's text at high temperature.

    Inputs and labels are int32 of shape (count, length), each label being the next input; all
    inputs begin with the first token of `like`.
    """
    labels = random.choice(words, (count, like.shape[1])).astype(np.int32)
    begins = np.full((count, 1), like[0, 0], np.int32)
    return np.concatenate([begins, labels[:, :-1]], axis=1), labels


def random_labels(
    classes: npt.NDArray[np.int32], count: int, random: np.random.Generator
) -> npt.NDArray[Any]:
    """Labels drawn uniformly from some classes, int32 of shape (count,)."""
    return random.choice(classes, count).astype(np.int32)


def wrong_labels(
    labels: npt.NDArray[np.int32], num_classes: int, padding_label: int, random: np.random.Generator
) -> npt.NDArray[np.int32]:
    """Wrong labels, each drawn uniformly from the other classes (Steinke et al. section 6).

    Padding is unchanged, and no label becomes padding.

    >>> wrong_labels(np.int32([0, 1, 1]), 2, -1, np.random.default_rng(0)).tolist()
    [1, 0, 0]
    """
    classes = np.setdiff1d(np.arange(num_classes, dtype=np.int32), [padding_label])
    # A shift by 1 to n - 1 modulo n reaches every class except the current one.
    shifts = random.integers(1, len(classes), labels.shape)
    places = np.searchsorted(classes, labels)
    wrong = classes[(places + shifts) % len(classes)]
    return np.where(labels == padding_label, labels, wrong).astype(np.int32)


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
      arms: Two or more ways to participate, instead of `participation.canaries` (docs/patterns.md).
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
            raise ValueError("arms must name at least two different arms, or be left out")
        if self.arms and self.inclusion == "pairs":
            raise ValueError(
                "arms cannot be combined with inclusion 'pairs', because the two canaries of a "
                "pair would be in different arms"
            )


class ExampleCanaries(Table, frozen=True, tag_field="kind", tag="examples"):
    """Canaries that hold data and train on it like clients (Steinke et al. 2023, section 6).

    Attributes:
      source: Where canaries' data come from (docs/canaries.md).
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
            raise ValueError(f"design is only for source 'random', not {self.source!r}")
        if self.source == "file":
            if self.path is None:
                raise ValueError("source 'file' needs path, the file")
            if self.examples_per_canary is not None:
                raise ValueError(
                    "source 'file' takes no examples_per_canary: the file determines it"
                )
        elif self.path is not None:
            raise ValueError(f"path is only for source 'file', not {self.source!r}")
        elif self.count is None:
            raise ValueError(f"source {self.source!r} needs count")


AnyCanaries = Canaries | ExampleCanaries


def coin_probability(canaries: AnyCanaries) -> float:
    """The probability that a canary is included; 1/2 unless the table states another."""
    stated = canaries.inclusion_probability
    return 0.5 if stated is None else stated


def score_file_of(
    canaries: AnyCanaries, included: npt.NDArray[np.bool_], score: npt.NDArray[np.float64]
) -> ScoreFile:
    """The score file of a pool, in which numbers identify the canaries."""
    return ScoreFile(
        tuple(map(str, range(len(included)))),
        included,
        score,
        canaries.inclusion,
        coin_probability(canaries),
        pair_names(canaries.inclusion, len(included)),
    )


def family_of(canaries: Table) -> str | None:
    """The family of canaries that are vectors, otherwise None."""
    return canaries.family if isinstance(canaries, Canaries) else None
