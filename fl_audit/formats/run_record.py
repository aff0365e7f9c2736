"""run.json: what a run did, which training writes last and every report begins with.

Its record holds the release as one value. The file spells a release in flat keys, which are older
than that value and which other programs read; `RecordedRelease` is this spelling.
"""

import dataclasses
import json
import typing
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from fl_audit.accounting.release import (
    Correlation,
    Denominator,
    Divisor,
    Grid,
    Noise,
    Party,
    Release,
    ZeroingKind,
)
from fl_audit.accounting.sampling import (
    Blocks,
    FixedRounds,
    FixedSizeSampling,
    OncePerBlock,
    OneGroup,
    OneRoundPerBlock,
    PoissonSampling,
    Sampling,
    UnknownRounds,
)
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import read_json, write_text
from fl_audit.json_records import (
    UNWRITTEN,
    WRITTEN_IF_SET,
    fields_from_json,
    fields_to_json,
    from_json,
)

FORMAT_VERSION = 1


@dataclass(frozen=True)
class LiveRecord:
    """What own-round scores proved while the run trained, valid at all rounds together.

    Attributes:
      epsilon: The epsilon proven at the audit's confidence.
      claim_p_value: The p-value of the claimed epsilon; None without a claim.
      claim_epsilon: The epsilon proven by the test of the claim, at the confidence of the verdict;
        0 where the claim stands or there is none.
    """

    epsilon: float
    claim_p_value: float | None = None
    claim_epsilon: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The facts of one training run that the report needs beyond scores and metrics.

    Attributes:
      task: The name of the task.
      runtime: The runtime that ran it.
      dim: The number of trainable parameters.
      num_clients: The number of real clients in the population.
      num_canaries: The number of canaries in the pool.
      num_included: The number of canaries that the coins included.
      delta: The delta that estimates are computed at.
      release: What the run released; of a run that was stopped, what it would have released.
      accuracy: The accuracy on held-out data after the last round.
      accuracy_description: The meaning of accuracy for the task, in words.
      training_seconds: The time spent in rounds of the engine, in seconds.
      scoring_seconds: The time spent on canary cosines, in seconds.
      versions: The versions of the packages that matter.
      variable_sizes: The number of parameters in each variable of the model.
      stopped_after: The number of rounds after which the run stopped, as its claim was
        contradicted; None where all rounds were done.
      live: What was proven round by round; None where that is not possible.
      finished: The time when the training was over, in UTC as ISO 8601 to the second; empty in runs
        of older versions.
      compile_seconds: The seconds that the engine spent on compiling in its last session, part of
        the above; None, and left out of the file, where the engine does not tell.
      labels: The kind of the labels: classes, of which a guess hits one in so many, or numbers, as
        in a regression, for which the accuracy has no chance level. Older runs do not say.
      format_version: The version of the file's format.
    """

    task: str
    runtime: str
    dim: int
    num_clients: int
    num_canaries: int
    num_included: int
    delta: float
    release: Release = dataclasses.field(metadata=UNWRITTEN)
    accuracy: float
    accuracy_description: str
    training_seconds: float
    scoring_seconds: float
    versions: dict[str, str]
    variable_sizes: tuple[int, ...] = ()
    stopped_after: int | None = None
    live: LiveRecord | None = None
    finished: str = ""
    compile_seconds: float | None = dataclasses.field(default=None, metadata=WRITTEN_IF_SET)
    labels: Literal["classes", "numbers"] = "classes"
    format_version: int = FORMAT_VERSION

    @property
    def rounds(self) -> int:
        """The number of rounds of training."""
        return self.release.rounds

    @property
    def rounds_done(self) -> int:
        """The number of rounds that were trained."""
        return self.rounds if self.stopped_after is None else self.stopped_after

    def to_json(self) -> dict[str, Any]:
        """The object of run.json."""
        return fields_to_json(self) | fields_to_json(RecordedRelease.from_release(self.release))

    @classmethod
    def from_json(cls, value: Any) -> "RunRecord":
        """The record that an object of run.json holds.

        Raises:
          ValueError: A key is missing, a value is of another type, or the numbers of the release do
            not fit together.
        """
        return fields_from_json(cls, value, release=from_json(RecordedRelease, value).release)


# A release in flat keys.


@dataclass(frozen=True)
class NamedPart:
    """A `Sampling` or a `Correlation` as run.json has it.

    Attributes:
      kind: The name of its class.
      fields: Its fields.
    """

    kind: str
    fields: dict[str, Any]

    @classmethod
    def from_part(cls, part: Sampling | Correlation) -> "NamedPart":
        """The name and the fields of a part of a release."""
        return cls(type(part).__name__, dataclasses.asdict(part))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "NamedPart":
        """The one that a JSON object holds."""
        return cls(value["kind"], dict(value["fields"]))


@dataclass(frozen=True, kw_only=True)
class RecordedRelease:
    """A release in the keys of run.json.

    Attributes:
      rounds: The number of rounds of training.
      client_participations: The largest number of rounds that a real client takes part in; None
        where only its distribution is known (sampling anew in each round).
      canary_participations: The largest number of rounds that an included canary takes part in;
        None likewise.
      sampling_probability: The probability of one client in one round under Poisson sampling, which
        holds for everybody whose participations are None; else None.
      noise_multiplier: The effective noise multiplier of one round, everything released in the
        round counted.
      sum_noise_multiplier: The standard deviation of the noise on the sum of updates over the clip
        norm; under tree aggregation, of the noise on a node of a tree.
      count_noise_stddev: The standard deviation of the noise on the adaptive clip's count, in
        clients; 0 without a count.
      denominator: The number that the sum is divided by: the expected number of clients and
        canaries in a round; the actual number under distributed noise.
      sample_size: The number that every round draws uniformly without replacement, for everybody
        whose participations are None; None under other patterns.
      sampled_from: The number that these are drawn from; None where `sample_size` is.
      noise_distribution: The name of the noise's distribution, one that accounting knows.
      zeroing: The kind of zeroing of updates before they are clipped.
      client_squared_sensitivity: Under correlated noise, the squared distance by which a real
        client moves all that independent noise is added to, such as the nodes of all trees, in clip
        norms; None where its rounds are random, and under other noise.
      canary_squared_sensitivity: The same distance for an included canary.
      canary_blocks: The blocks of rounds of each of which a canary is in one, drawn uniformly and
        independently of all else; None where canaries' rounds are drawn otherwise.
      client_sampling: The `Sampling` of a real client, where the fields above cannot say it. Left
        out of the file where it is None, as are the next five.
      canary_sampling: The same for an included canary.
      divides_by: Whether the sum is divided by the expected or the actual number of participants,
        where `noise_distribution` does not say it: by the actual number under Skellam noise.
      correlation: The trees or the matrix that correlate noise over rounds.
      grid: The grid of sums of integers, where it is known.
      fewest: The smallest number of participants of a round, where each adds a share of the noise.
    """

    rounds: int
    client_participations: int | None
    canary_participations: int | None
    sampling_probability: float | None
    noise_multiplier: float
    sum_noise_multiplier: float
    count_noise_stddev: float
    denominator: float
    sample_size: int | None = None
    sampled_from: int | None = None
    noise_distribution: str = "gaussian"
    zeroing: ZeroingKind = "none"
    client_squared_sensitivity: float | None = None
    canary_squared_sensitivity: float | None = None
    canary_blocks: Blocks | None = None
    client_sampling: NamedPart | None = dataclasses.field(default=None, metadata=WRITTEN_IF_SET)
    canary_sampling: NamedPart | None = dataclasses.field(default=None, metadata=WRITTEN_IF_SET)
    divides_by: Divisor | None = dataclasses.field(default=None, metadata=WRITTEN_IF_SET)
    correlation: NamedPart | None = dataclasses.field(default=None, metadata=WRITTEN_IF_SET)
    grid: Grid | None = dataclasses.field(default=None, metadata=WRITTEN_IF_SET)
    fewest: int | None = dataclasses.field(default=None, metadata=WRITTEN_IF_SET)

    @classmethod
    def from_release(cls, release: Release) -> "RecordedRelease":
        """The keys that say what was released."""
        client, canary = release.client.sampling, release.canary.sampling
        both = (client, canary)
        poisson = next((s for s in both if type(s) is PoissonSampling), None)
        fixed_size = next((s for s in both if type(s) is FixedSizeSampling), None)
        by_chance: Sampling = poisson or fixed_size or UnknownRounds()
        divisor, correlation = release.denominator.divisor, release.correlation
        is_implied = divisor == _implied_divisor(release.noise.distribution)
        said_by_blocks = (FixedRounds, OncePerBlock, OneGroup)
        return cls(
            rounds=release.rounds,
            noise_multiplier=release.noise.noise_multiplier,
            sum_noise_multiplier=release.noise.sum_noise_multiplier,
            count_noise_stddev=release.noise.count_noise_stddev,
            noise_distribution=release.noise.distribution,
            denominator=release.denominator.expected,
            divides_by=None if is_implied else divisor,
            zeroing=release.zeroing,
            sampling_probability=None if poisson is None else poisson.probability,
            sample_size=None if fixed_size is None else fixed_size.sample_size,
            sampled_from=None if fixed_size is None else fixed_size.sampled_from,
            client_participations=client.most,
            canary_participations=canary.most,
            canary_blocks=canary.blocks if isinstance(canary, OneRoundPerBlock) else None,
            client_sampling=_named(client, by_chance, *said_by_blocks),
            canary_sampling=_named(canary, by_chance, *said_by_blocks, OneRoundPerBlock),
            client_squared_sensitivity=release.client.squared_sensitivity,
            canary_squared_sensitivity=release.canary.squared_sensitivity,
            correlation=None if correlation is None else NamedPart.from_part(correlation),
            grid=release.noise.grid,
            fewest=release.fewest,
        )

    @property
    def release(self) -> Release:
        """What the run released.

        Raises:
          ValueError: The numbers do not fit together.
        """
        by_chance = self._drawn()
        client = _read_sampling(self.client_sampling, self.client_participations, None, by_chance)
        canary = _read_sampling(
            self.canary_sampling, self.canary_participations, self.canary_blocks, by_chance
        )
        divisor = self.divides_by or _implied_divisor(self.noise_distribution)
        return Release(
            rounds=self.rounds,
            noise=Noise(
                self.noise_distribution,
                self.noise_multiplier,
                self.sum_noise_multiplier,
                self.count_noise_stddev,
                self.grid,
            ),
            denominator=Denominator(divisor, self.denominator),
            client=Party(client, self.client_squared_sensitivity),
            canary=Party(canary, self.canary_squared_sensitivity),
            zeroing=self.zeroing,
            correlation=_read_correlation(self.correlation),
            fewest=self.fewest,
        )

    def _drawn(self) -> Sampling:
        """How the rounds of those are drawn whose participations are None."""
        if self.sampling_probability is not None:
            return PoissonSampling(self.sampling_probability)
        if self.sample_size is not None:
            return FixedSizeSampling(self.sample_size, self.sampled_from or 0)
        return UnknownRounds()


def _implied_divisor(noise_distribution: str) -> Divisor:
    """The divisor of a record that does not say it."""
    return "actual_cohort" if noise_distribution == "skellam" else "expected_cohort"


def _read_sampling(
    part: NamedPart | None, participations: int | None, blocks: Blocks | None, by_chance: Sampling
) -> Sampling:
    if part is not None:
        return _sampling_named(part)
    if participations is None:
        return by_chance
    if blocks is not None:
        return OneRoundPerBlock(participations, blocks)
    return FixedRounds(participations)


def _read_correlation(part: NamedPart | None) -> Correlation | None:
    """What correlates noise; None too where a later version knows more."""
    for kind in typing.get_args(Correlation):
        if part is not None and kind.__name__ == part.kind:
            correlation: Correlation = msgspec.convert(part.fields, kind)
            return correlation
    return None


def _sampling_named(part: NamedPart) -> Sampling:
    """A way to draw rounds by the name of its class; unknown where its module is not imported."""
    kinds = [Sampling]
    for kind in kinds:
        kinds += kind.__subclasses__()
    for kind in kinds:
        if kind.__name__ == part.kind:
            return msgspec.convert(part.fields, kind)
    return UnknownRounds()


def _named(
    sampling: Sampling, by_chance: Sampling, *said_by_participations: type[Sampling]
) -> NamedPart | None:
    """What the other fields cannot say; None where they say all that accounting needs."""
    if sampling == by_chance or type(sampling) in said_by_participations:
        return None
    return NamedPart.from_part(sampling)


# The file.


def record_text(record: RunRecord) -> str:
    """The text of `run.json`."""
    return json.dumps(record.to_json(), indent=2, allow_nan=False) + "\n"


def write_record(folder: RunFolder, record: RunRecord) -> None:
    """Writes `run.json`."""
    write_text(folder.record, record_text(record))


def read_record(folder: RunFolder) -> RunRecord:
    """Reads `run.json`.

    Raises:
      InputError: The file is missing, damaged, or of another format version.
    """
    fields = read_json(folder.record, dict[str, Any], "a run record")
    version = fields.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder.record}: format_version is {version!r}, must be {FORMAT_VERSION}"
        )
    try:
        return RunRecord.from_json(fields)
    except ValueError as error:
        raise InputError(f"{folder.record}: is not a run record: {error}") from error
