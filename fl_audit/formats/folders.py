"""Run folders and log folders: which files they hold, which belong together, who works there.

Training writes a run folder and does not use estimators; the report reads it and does not use
TensorFlow. A log folder is written by a production system in any language, or by `RoundScorer`;
docs/logs.md describes its format. `sources.json` holds the digests of the files that belong
together, and `locked` keeps a second process out of a folder.
"""

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from fl_audit.accounting.release import (
    Blocks,
    Denominator,
    Divisor,
    FixedRounds,
    FixedSizeSampling,
    Noise,
    OncePerBlock,
    OneGroup,
    Party,
    PoissonSampling,
    RandomAllocation,
    Release,
    Sampling,
    UnknownRounds,
    ZeroingKind,
)
from fl_audit.errors import InputError
from fl_audit.formats.text_files import open_foreign, read_json, write_text
from fl_audit.json_records import WRITTEN_IF_SET, fields_to_json


@dataclass(frozen=True)
class ScoredFolder:
    """The paths inside a folder whose canaries are scored."""

    path: Path

    @property
    def canaries(self) -> Path:
        """The pool, `canary_id,included,rounds` with rounds from 1, separated by spaces (CSV)."""
        return self.path / "canaries.csv"

    @property
    def round_cosines(self) -> Path:
        """The canaries' cosines with aggregates, float32 of shape (rounds, num_canaries) (NPY)."""
        return self.path / "round_cosines.npy"

    @property
    def round_concentrations(self) -> Path:
        """How much of each aggregate lies on few coordinates, float64 of shape (rounds, 2) (NPY).

        The file is missing where the null law of the canaries' family does not depend on it.
        """
        return self.path / "round_concentrations.npy"

    @property
    def round_directions(self) -> Path:
        """The aggregates' directions, for canaries with several rounds (see `DirectionLog`) (NPY).

        A run deletes it with the last round.
        """
        return self.path / "round_directions.npy"

    @property
    def compared_vectors(self) -> Path:
        """What is known of the vectors that canaries were compared with, by statistic (JSON)."""
        return self.path / "concentrations.json"

    @property
    def sources(self) -> Path:
        """The digests of the files that belong together (JSON), see `Sources`."""
        return self.path / "sources.json"

    def scores(self, statistic: str) -> Path:
        """The score file of one statistic, `canary_id,included,score` (CSV)."""
        return self.path / f"scores_{statistic}.csv"


FORMAT_VERSION = 1


@dataclass(frozen=True)
class RunFolder(ScoredFolder):
    """Paths inside one run's folder."""

    @property
    def config(self) -> Path:
        """The resolved config (TOML)."""
        return self.path / "config.toml"

    @property
    def metrics(self) -> Path:
        """The metrics, one row per round (CSV)."""
        return self.path / "metrics.csv"

    @property
    def round_products(self) -> Path:
        """The inner product of each example canary's would-be update with each aggregate (NPY)."""
        return self.path / "round_products.npy"

    @property
    def release_cosines(self) -> Path:
        """The cosine of every canary with every difference of released models, float32 (NPY)."""
        return self.path / "release_cosines.npy"

    @property
    def release_concentrations(self) -> Path:
        """The same of every difference of released models as `round_concentrations` (NPY)."""
        return self.path / "release_concentrations.npy"

    @property
    def aggregates(self) -> Path:
        """Every aggregate's squared length and product with the last one, by variable (NPY)."""
        return self.path / "aggregates.npy"

    @property
    def autocorrelation(self) -> Path:
        """The lag at which the first round's aggregate is most like itself (JSON)."""
        return self.path / "first_round_echo.json"

    @property
    def replay(self) -> Path:
        """What a replay of the first round found, before it was trained (JSON)."""
        return self.path / "replay.json"

    @property
    def checkpoint(self) -> Path:
        """The state after the last checkpointed round (NPZ, no pickle)."""
        return self.path / "checkpoint.npz"

    @property
    def record(self) -> Path:
        """The record of what the run did (JSON), see `RunRecord`; training writes it last."""
        return self.path / "run.json"

    @property
    def report_json(self) -> Path:
        """The report for programs; a run with this file is finished."""
        return self.path / "report.json"

    @property
    def report_html(self) -> Path:
        """The report for people."""
        return self.path / "report.html"

    @property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard event files."""
        return self.path / "tensorboard"

    @property
    def worker_log(self) -> Path:
        """The output of TFF's worker process."""
        return self.path / "worker.log"

    def released_model(self, completed: int) -> Path:
        """The model after so many rounds, kept until the next one is released, float32 (NPY)."""
        return self.path / f"released_model_{completed:06}.npy"

    def direction_sum(self, name: str, count: int) -> Path:
        """The sum of the directions of so many vectors, while a run trains: float64 (NPY).

        Args:
          name: what these are vectors of.
          count: how many are in it.
        """
        return self.path / f"direction_sum_{name}_{count:06}.npy"

    def direction_sums(self, name: str = "*") -> list[Path]:
        """The sums of directions that are there, of some vectors or of all."""
        return sorted(self.path.glob(f"direction_sum_{name}_[0-9]*.npy"))

    def made_by_training(self) -> tuple[Path, ...]:
        """The files that belong together once training is over; each may be missing."""
        logs = (self.round_cosines, self.round_concentrations, self.round_products, self.aggregates)
        releases = (self.release_cosines, self.release_concentrations)
        scores = (self.compared_vectors, *self.path.glob("scores_*.csv"))
        return (self.config, self.canaries, self.metrics, *logs, *releases, *scores)

    def released_models(self) -> list[Path]:
        """The released models that exist."""
        return sorted(self.path.glob("released_model_*.npy"))


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


@dataclass(frozen=True)
class NamedSampling:
    """A `Sampling` as run.json has it.

    Attributes:
      kind: The name of its class.
      fields: Its fields.
    """

    kind: str
    fields: dict[str, Any]

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "NamedSampling":
        """The one that a JSON object holds."""
        return cls(value["kind"], dict(value["fields"]))


@dataclass(frozen=True)
class RunRecord:
    """The facts of one training run that the report needs beyond scores and metrics.

    Attributes:
      task: The name of the task.
      runtime: The TFF runtime that ran it.
      dim: The number of trainable parameters.
      num_clients: The number of real clients in the population.
      num_canaries: The number of canaries in the pool.
      num_included: The number of canaries that the coins included.
      rounds: The number of rounds of training.
      delta: The delta that estimates are computed at.
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
      accuracy: The accuracy on held-out data after the last round.
      accuracy_description: The meaning of accuracy for the task, in words.
      training_seconds: The time spent in TFF rounds, in seconds.
      scoring_seconds: The time spent on canary cosines, in seconds.
      versions: The versions of the packages that matter.
      sample_size: The number that every round draws uniformly without replacement, for everybody
        whose participations are None; None under other patterns.
      sampled_from: The number that these are drawn from; None where `sample_size` is.
      noise_law: The name of the law of the noise, one that accounting knows.
      zeroing: The kind of zeroing of updates before they are clipped.
      client_squared_sensitivity: Under tree aggregation, the squared distance by which a real
        client moves the nodes of all trees together, in clip norms; None where its rounds are
        random, and under other noise.
      canary_squared_sensitivity: The same distance for an included canary.
      canary_blocks: The blocks of rounds of each of which a canary is in one, drawn uniformly and
        independently of all else; None where canaries' rounds are drawn otherwise.
      client_sampling: The `Sampling` of a real client, where the fields above cannot say it. Left
        out of the file where it is None, as are the next two.
      canary_sampling: The same for an included canary.
      divides_by: Whether the sum is divided by the expected or the actual number of participants,
        where the noise law does not say it: by the actual number under Skellam noise.
      variable_sizes: The number of parameters in each variable of the model.
      stopped_after: The number of rounds after which the run stopped, as its claim was
        contradicted; None where all rounds were done.
      live: What was proven round by round; None where that is not possible.
      finished: The time when the training was over, in UTC as ISO 8601 to the second; empty in runs
        of older versions.
      labels: The kind of the labels: classes, of which a guess hits one in so many, or numbers, as
        in a regression, for which the accuracy has no chance level. Older runs do not say.
    """

    task: str
    runtime: str
    dim: int
    num_clients: int
    num_canaries: int
    num_included: int
    rounds: int
    delta: float
    client_participations: int | None
    canary_participations: int | None
    sampling_probability: float | None
    noise_multiplier: float
    sum_noise_multiplier: float
    count_noise_stddev: float
    denominator: float
    accuracy: float
    accuracy_description: str
    training_seconds: float
    scoring_seconds: float
    versions: dict[str, str]
    sample_size: int | None = None
    sampled_from: int | None = None
    noise_law: str = "gaussian"
    zeroing: ZeroingKind = "none"
    client_squared_sensitivity: int | None = None
    canary_squared_sensitivity: int | None = None
    canary_blocks: Blocks | None = None
    client_sampling: NamedSampling | None = dataclasses.field(default=None, metadata=WRITTEN_IF_SET)
    canary_sampling: NamedSampling | None = dataclasses.field(default=None, metadata=WRITTEN_IF_SET)
    divides_by: Divisor | None = dataclasses.field(default=None, metadata=WRITTEN_IF_SET)
    variable_sizes: tuple[int, ...] = ()
    stopped_after: int | None = None
    live: LiveRecord | None = None
    finished: str = ""
    labels: Literal["classes", "numbers"] = "classes"
    format_version: int = FORMAT_VERSION

    @property
    def rounds_done(self) -> int:
        """The number of rounds that were trained."""
        return self.rounds if self.stopped_after is None else self.stopped_after

    @functools.cached_property
    def release(self) -> Release:
        """What the run released.

        Raises:
          ValueError: The numbers do not fit together.
        """
        drawn = self._drawn()
        client = _read_sampling(self.client_sampling, self.client_participations, None, drawn)
        canary = _read_sampling(
            self.canary_sampling, self.canary_participations, self.canary_blocks, drawn
        )
        return Release(
            rounds=self.rounds,
            noise=Noise(
                self.noise_law,
                self.noise_multiplier,
                self.sum_noise_multiplier,
                self.count_noise_stddev,
            ),
            denominator=Denominator(
                self.divides_by or _implied_divisor(self.noise_law), self.denominator
            ),
            client=Party(client, self.client_squared_sensitivity),
            canary=Party(canary, self.canary_squared_sensitivity),
            zeroing=self.zeroing,
        )

    def _drawn(self) -> Sampling:
        """How the rounds of those are drawn whose participations are None."""
        fixed_size = poisson = None
        if self.sample_size is not None:
            fixed_size = FixedSizeSampling(self.sample_size, self.sampled_from or 0)
        if self.sampling_probability is not None:
            poisson = PoissonSampling(self.sampling_probability)
        return poisson or fixed_size or UnknownRounds()


# A release in run.json: the fields of `RunRecord`, older than the record of a release, and more
# where those cannot say how rounds are drawn.


def _implied_divisor(noise_law: str) -> Divisor:
    """The divisor of a record that does not say it."""
    return "actual_cohort" if noise_law == "skellam" else "expected_cohort"


def _read_sampling(
    said: NamedSampling | None, participations: int | None, blocks: Blocks | None, drawn: Sampling
) -> Sampling:
    if said is not None:
        return _sampling_named(said)
    if participations is None:
        return drawn
    if blocks is not None:
        return RandomAllocation(participations, blocks)
    return FixedRounds(participations)


def _sampling_named(said: NamedSampling) -> Sampling:
    """A way to draw rounds by the name of its class; unknown where its module is not imported."""
    kinds = [Sampling]
    for kind in kinds:
        kinds += kind.__subclasses__()
    for kind in kinds:
        if kind.__name__ == said.kind:
            return msgspec.convert(said.fields, kind)
    return UnknownRounds()


def release_fields(release: Release) -> dict[str, Any]:
    """The fields of a `RunRecord` that say what was released."""
    client, canary = release.client.sampling, release.canary.sampling
    both = (client, canary)
    poisson = next((s for s in both if type(s) is PoissonSampling), None)
    fixed_size = next((s for s in both if type(s) is FixedSizeSampling), None)
    drawn: Sampling = poisson or fixed_size or UnknownRounds()
    blocks = canary.blocks if isinstance(canary, RandomAllocation) else None
    divisor = release.denominator.divisor
    is_implied = divisor == _implied_divisor(release.noise.law)
    return {
        "rounds": release.rounds,
        "noise_multiplier": release.noise.noise_multiplier,
        "sum_noise_multiplier": release.noise.sum_noise_multiplier,
        "count_noise_stddev": release.noise.count_noise_stddev,
        "noise_law": release.noise.law,
        "denominator": release.denominator.expected,
        "divides_by": None if is_implied else divisor,
        "zeroing": release.zeroing,
        "sampling_probability": poisson and poisson.probability,
        "sample_size": fixed_size and fixed_size.sample_size,
        "sampled_from": fixed_size and fixed_size.sampled_from,
        "client_participations": client.most,
        "canary_participations": canary.most,
        "canary_blocks": blocks,
        "client_sampling": _named(client, drawn, FixedRounds, OncePerBlock, OneGroup),
        "canary_sampling": _named(
            canary, drawn, FixedRounds, OncePerBlock, OneGroup, RandomAllocation
        ),
        "client_squared_sensitivity": release.client.squared_sensitivity,
        "canary_squared_sensitivity": release.canary.squared_sensitivity,
    }


def _named(
    sampling: Sampling, drawn: Sampling, *said_by_participations: type[Sampling]
) -> NamedSampling | None:
    """What the other fields cannot say; None where they say all that accounting needs."""
    if sampling == drawn or type(sampling) in said_by_participations:
        return None
    return NamedSampling(type(sampling).__name__, dataclasses.asdict(sampling))


def write_record(folder: RunFolder, record: RunRecord) -> None:
    """Writes `run.json`."""
    text = json.dumps(fields_to_json(record), indent=2, allow_nan=False)
    write_text(folder.record, text + "\n")


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
        record = msgspec.convert(fields, RunRecord)
    except msgspec.MsgspecError as error:
        raise InputError(f"{folder.record}: is not a run record: {error}") from error
    try:
        _ = record.release  # made once, so that nobody who reads the record has to catch it
    except ValueError as error:
        raise InputError(f"{folder.record}: {error}") from error
    return record


@dataclass(frozen=True)
class LogFolder(ScoredFolder):
    """The paths inside a log's folder, whose `canaries.csv` may lack the column `rounds`."""

    @property
    def pool(self) -> Path:
        """The file of the pool: format_version, family, seed, count and dim (JSON)."""
        return self.path / "pool.json"

    @property
    def aggregates(self) -> Path:
        """The folder of the rounds' noised aggregates, named `round_000001.npy` and so on."""
        return self.path / "aggregates"

    @property
    def round_lengths(self) -> Path:
        """The length of each aggregate and of a canary in it, float64 of shape (rounds, 2) (NPY).

        The second is what the mechanism promises, clip norm over denominator. NaN where a length is
        not known; the file may be missing.
        """
        return self.path / "round_lengths.npy"

    @property
    def round_mechanism(self) -> Path:
        """The noise on a coordinate and the norm bound, float64 of shape (rounds, 2) (NPY).

        The first is the standard deviation of the noise on each coordinate of a round's aggregate,
        the second the largest norm that the aggregate can have without noise. NaN where one is not
        known; the file may be missing.
        """
        return self.path / "round_mechanism.npy"

    @property
    def variables(self) -> Path:
        """The sizes of the model's variables, and which are frozen (JSON); may be missing."""
        return self.path / "variables.json"

    @property
    def round_measures(self) -> Path:
        """What `RoundScorer` has measured of each aggregate, as a run's `aggregates.npy` (NPY)."""
        return self.path / "round_measures.npy"

    @property
    def coordinate_lengths(self) -> Path:
        """What rounds leave on each coordinate, as `RoundScorer` keeps it (NPY)."""
        return self.path / "coordinate_lengths.npy"

    @property
    def autocorrelation(self) -> Path:
        """The strongest autocorrelation of a round, as `RoundScorer` has found it (JSON)."""
        return self.path / "round_echo.json"

    @property
    def direction_sum(self) -> Path:
        """The sum of the directions of the aggregates so far, as `RoundScorer` keeps it (NPY)."""
        return self.path / "direction_sum.npy"

    @property
    def initial(self) -> Path:
        """The model before the first round, float32 of shape (dim,) (NPY); may be missing."""
        return self.path / "initial.npy"

    @property
    def final(self) -> Path:
        """The model after the last round, float32 of shape (dim,) (NPY); may be missing."""
        return self.path / "final.npy"

    @property
    def participation(self) -> Path:
        """How clients may take part, and whether a claim counts on it (JSON); may be missing."""
        return self.path / "participation.json"

    @property
    def faults(self) -> Path:
        """What went wrong in the audit itself while training went on, a line each; or missing."""
        return self.path / "faults.txt"

    @property
    def optional(self) -> tuple[str, ...]:
        """The names of what another system may put beside the pool; each may be missing."""
        vectors = (self.aggregates, self.round_cosines, self.initial, self.final)
        told = (self.canaries, self.round_lengths, self.round_mechanism, self.variables)
        return tuple(path.name for path in (*vectors, *told, self.participation))


# sources.json: which files of a folder belong together, by their digests. Scores are of a pool and
# of rounds. The file is written last, so that scores beside other rounds, or rounds beside another
# pool, show: some file then is not what it was.


_FORMAT_VERSION = 1


class Sources(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What belongs together.

    Attributes:
      format_version: The version of the format.
      rounds: The number of rounds that scores are of; 0 before there are scores.
      files: The SHA-256 of each file, by its name, as hexadecimal digits.
    """

    format_version: int
    rounds: int
    files: dict[str, str]

    def changed(self, folder: Path, names: Iterable[str] | None = None) -> list[str]:
        """The names of files that are there and hold something else.

        Args:
          folder: The folder.
          names: The names of the files to look at; None for all that belong together.

        Raises:
          InputError: A file cannot be read.
        """
        asked = self.files if names is None else self.files.keys() & set(names)
        there = sorted(name for name in asked if (folder / name).exists())
        return [name for name in there if _digest(folder / name) != self.files[name]]


def write_sources(path: Path, rounds: int, files: Iterable[Path]) -> None:
    """Writes the file; of the files that belong together, those that are there.

    Args:
      path: The path of `sources.json`.
      rounds: The number of rounds that scores are of; 0 before there are scores.
      files: The files, which are beside it.
    """
    digests = {file.name: _digest(file) for file in sorted(files) if file.exists()}
    text = msgspec.json.format(msgspec.json.encode(Sources(_FORMAT_VERSION, rounds, digests)))
    write_text(path, text.decode() + "\n")


def read_sources(path: Path) -> Sources | None:
    """Reads the file; None where there is none, as in older folders and those of other systems.

    Raises:
      InputError: The file is damaged, of another format version, or names files elsewhere.
    """
    if not path.exists():
        return None
    found = read_json(path, Sources, "a record of what belongs together")
    if found.format_version != _FORMAT_VERSION:
        raise InputError(
            f"{path}: format_version is {found.format_version}, must be {_FORMAT_VERSION}"
        )
    for name in found.files:
        if name in ("", ".", "..") or Path(name).name != name:
            raise InputError(f"{path}: names {name!r}, must name files beside it")
    return found


def _digest(path: Path) -> str:
    try:
        with open_foreign(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


# The lock of a folder, which ends with the process that holds it, however that ends.


LOCK_NAME = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder while the block runs.

    The system gives up the lock (flock) of a process that was killed, so that a file which it has
    left keeps nobody out. Programs that the process starts do not hold it.

    Args:
      folder: The folder, which exists.

    Raises:
      InputError: Another process holds the lock.
      OSError: The folder cannot be written.
    """
    path = folder / LOCK_NAME
    descriptor = _lock(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a fork of this process may have it open too
        os.close(descriptor)


@contextlib.contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Waits for the lock of a file, and holds it while the block runs.

    Args:
      path: The file, which is made and stays.

    Raises:
      OSError: The file cannot be written.
    """
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # given up as the file is closed
        yield


def _lock(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who held it before may have removed the file after it was opened here.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError as error:
            holder = os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise InputError(
                f"{path.parent}: another process (number {holder}) is at work in this folder; "
                "wait for its end, or choose another folder"
            ) from error
        os.close(descriptor)
