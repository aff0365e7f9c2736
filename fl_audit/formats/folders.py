"""Run folders and log folders: their files, and the lock of a folder.

Training writes a run folder; the report reads it without TensorFlow. A log folder is written by a
production system in any language, or by `RoundScorer`; docs/logs.md describes its format. Digests
chain what an audit writes to a folder (`round_chain`); `locked` and `WriteLock` keep a second
writer out.
"""

import contextlib
import fcntl
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, overload

from fl_audit.errors import InputError
from fl_audit.formats.round_chain import Chain, read_chain


@dataclass(frozen=True)
class _In:
    """The path of a folder's file or subfolder with this name."""

    name: str

    @overload
    def __get__(self, folder: None, kind: object) -> "_In": ...

    @overload
    def __get__(self, folder: "ScoredFolder", kind: object) -> Path: ...

    def __get__(self, folder: "ScoredFolder | None", kind: object) -> "Path | _In":
        return self if folder is None else folder.path / self.name


@dataclass(frozen=True)
class ScoredFolder:
    """The paths inside a folder whose canaries are scored."""

    path: Path

    canaries = _In("canaries.csv")
    """The pool, `canary_id,included,rounds`; rounds count from 1, with spaces between (CSV)."""
    round_cosines = _In("round_cosines.npy")
    """The canaries' cosines with aggregates, float32 of shape (rounds, num_canaries) (NPY)."""
    round_concentrations = _In("round_concentrations.npy")
    """The concentrations of aggregates (`ConcentrationLog`), float64 of shape (rounds, 2) (NPY).
    Missing if the null distribution of the canaries' family does not depend on concentrations.
    """
    round_directions = _In("round_directions.npy")
    """The aggregates' directions (`DirectionLog`), for canaries with several rounds (NPY).

    A run deletes it after training.
    """
    round_noise = _In("round_noise.npy")
    """The measurements of each aggregate's noise (`checks.noise_rows`), float32 (NPY)."""
    upload_cosines = _In("upload_cosines.npy")
    """Canaries' cosines with their own uploads, float32 of shape (rounds, canaries) (NPY).

    NaN if a canary has no upload in a round; may be missing.
    """
    upload_concentrations = _In("upload_concentrations.npy")
    """The largest concentrations of any upload of each round, float64 of shape (rounds, 2) (NPY).
    Missing like `round_concentrations`.
    """
    upload_directions = _In("upload_directions.npy")
    """The uploads' directions by round and canary, if any canary has several uploads (NPY).

    A run deletes it after training.
    """
    kept_directions = _In("kept_directions.npz")
    """What a run keeps of `round_directions` (`attacks.own_sums.KeptSums`) (NPZ)."""
    kept_upload_directions = _In("kept_upload_directions.npz")
    """What a run keeps of `upload_directions`, in the same form (NPZ)."""

    def upload_logs(self) -> tuple[Path, ...]:
        """The logs of uploads with a row per round; each may be missing."""
        return (self.upload_cosines, self.upload_concentrations)

    compared_vectors = _In("concentrations.json")
    """The concentrations of the vectors with which each statistic compares canaries (JSON)."""
    chain = _In("chain.jsonl")
    """The digests of everything that was written, in order (JSON lines; `round_chain`)."""

    def checked_chain(self) -> Chain | None:
        """The chain, checked; None without one, as in a folder of another system."""
        if not self.chain.exists():
            return None
        chain = read_chain(self.chain)
        chain.check(self.chain)
        return chain

    def scores(self, statistic: str) -> Path:
        """The score file of one statistic, `canary_id,included,score` (CSV)."""
        return self.path / f"scores_{statistic}.csv"


@dataclass(frozen=True)
class RunFolder(ScoredFolder):
    """The paths inside a run's folder."""

    config = _In("config.toml")
    """The resolved config (TOML)."""

    def identity(self) -> tuple[Path, ...]:
        """The files that define the run before its first round; the last three may be missing."""
        sealed = (self.commitment, *self.withheld())
        return (self.config, self.canaries, self.inputs, *sealed)

    def withheld(self) -> tuple[Path, ...]:
        """The secrets of the run, which its owner may keep from others; each may be missing."""
        return (self.schedule_secret, self.opening)

    inputs = _In("inputs.json")
    """The digests of the run's inputs besides its config (JSON; `config.inputs`)."""
    schedule_secret = _In("schedule_secret")
    """The secret of the schedule (64 hexadecimal digits); missing if the seed draws the schedule.
    Anyone who has the secret knows the rounds of all clients.
    """
    commitment = _In("commitment.json")
    """The run's commitment (JSON)."""
    opening = _In("commitment.json.opening")
    """The nonce that opens the commitment (JSON), for the owner only."""
    metrics = _In("metrics.csv")
    """The metrics, one row per round (CSV)."""
    round_products = _In("round_products.npy")
    """The inner product of each example canary's would-be update with each aggregate (NPY)."""
    round_signals = _In("round_signals.npy")
    """The signal of each round about each example canary (`attacks.update_ratio`) (NPY)."""
    round_energies = _In("round_energies.npy")
    """The variances of the signals in `round_signals` (NPY)."""
    release_cosines = _In("release_cosines.npy")
    """The cosine of every canary with every difference of released models, float32 (NPY)."""
    release_concentrations = _In("release_concentrations.npy")
    """The concentrations of differences of released models, of shape (releases, 2) (NPY)."""
    aggregates = _In("aggregates.npy")
    """Each aggregate's squared norm and product with the previous aggregate, by variable (NPY)."""
    replay = _In("replay.json")
    """The findings of a replay of the first round, made before training (JSON)."""
    checkpoint = _In("checkpoint.npz")
    """The state after the last checkpointed round (NPZ, no pickle)."""
    record = _In("run.json")
    """The record of the run (JSON; `run_record`); training writes it last."""
    model = _In("model.npz")
    """The model after the last round (NPZ; `model_file`)."""
    initial_model = _In("initial_model.npz")
    """The model before the first round (NPZ)."""
    report_json = _In("report.json")
    """The report for programs; a run with this file is finished."""
    report_html = _In("report.html")
    """The report for people."""
    tensorboard = _In("tensorboard")
    """The folder of TensorBoard event files."""
    worker_log = _In("worker.log")
    """The output of TFF's worker process."""

    def released_model(self, completed: int) -> Path:
        """The model after `completed` rounds, kept until the next release, float32 (NPY)."""
        return self.path / f"released_model_{completed:06}.npy"

    def direction_sum(self, name: str, count: int) -> Path:
        """The sum of the directions of `count` vectors, kept during training, float64 (NPY)."""
        return self.path / f"direction_sum_{name}_{count:06}.npy"

    def direction_sums(self, name: str = "*") -> list[Path]:
        """The existing files of `direction_sum`, for one name or for all."""
        return sorted(self.path.glob(f"direction_sum_{name}_[0-9]*.npy"))

    def round_logs(self) -> tuple[Path, ...]:
        """The logs with a row per round; each may be missing."""
        cosines = (self.round_cosines, self.round_concentrations, self.round_directions)
        logs = (self.metrics, *cosines, *self.upload_logs())
        examples = (self.round_products, self.round_signals, self.round_energies)
        return (*logs, *examples, self.aggregates, self.round_noise)

    def release_logs(self) -> tuple[Path, ...]:
        """The logs with a row per released model; each may be missing."""
        return (self.release_cosines, self.release_concentrations)

    def training_outputs(self) -> tuple[Path, ...]:
        """The files, other than logs, that exist once training is over; each may be missing."""
        kept = (self.kept_directions, self.kept_upload_directions, *self.direction_sums())
        scored = (self.compared_vectors, *self.path.glob("scores_*.csv"))
        return (self.model, self.initial_model, self.replay, *kept, *scored)

    def released_models(self) -> list[Path]:
        return sorted(self.path.glob("released_model_*.npy"))


@dataclass(frozen=True)
class LogFolder(ScoredFolder):
    """The paths inside a log's folder, whose `canaries.csv` may lack the column `rounds`."""

    pool = _In("pool.json")
    """The pool: format_version, family, seed, count, dim, inclusion (JSON)."""

    def identity(self) -> tuple[Path, ...]:
        """The files that define what is audited; all but the first may be missing."""
        described = (self.participation, self.noise_correlation, self.adaptive_clip)
        return (self.pool, self.canaries, *described)

    aggregates = _In("aggregates")
    """The folder of the rounds' noised aggregates, named `round_000001.npy` and so on."""
    round_lengths = _In("round_lengths.npy")
    """The norm of each aggregate, and a client's norm in it, float64 of shape (rounds, 2) (NPY).

    The client's norm is the largest that the mechanism allows, clip norm over denominator. NaN if a
    norm is not known; may be missing.
    """
    round_mechanism = _In("round_mechanism.npy")
    """The noise on a coordinate and the norm bound, float64 of shape (rounds, 2) (NPY).

    The noise is the standard deviation on each coordinate of a round's aggregate, the norm bound
    the largest norm of the aggregate without noise. NaN if one is not known; may be missing.
    """
    variables = _In("variables.json")
    """The sizes of the model's variables, and which are frozen (JSON); may be missing."""
    round_measures = _In("round_measures.npy")
    """The measurements of aggregates by `RoundScorer`, like a run's `aggregates.npy` (NPY)."""

    def round_logs(self) -> tuple[Path, ...]:
        """The logs with a row per round; each may be missing."""
        cosines = (self.round_cosines, self.round_concentrations, self.round_directions)
        measures = (self.round_measures, self.round_noise)
        facts = (self.round_lengths, self.round_mechanism, *measures)
        return (*cosines, *self.upload_logs(), *facts)

    direction_sum = _In("direction_sum.npy")
    """The sum of the aggregates' directions so far, from `RoundScorer` (NPY)."""
    initial = _In("initial.npy")
    """The model before the first round, float32 of shape (dim,) (NPY); may be missing."""
    final = _In("final.npy")
    """The model after the last round, float32 of shape (dim,) (NPY); may be missing."""
    participation = _In("participation.json")
    """How clients may participate, and what a claim relies on (JSON); may be missing."""
    noise_correlation = _In("noise_correlation.json")
    """The matrix or the trees that correlate noise over rounds (JSON); may be missing."""
    claim = _In("claim.csv")
    """The training's claimed privacy profile, epsilon and delta (CSV); may be missing. `estimate`
    tests it unless another claim is stated.
    """
    adaptive_clip = _In("adaptive_clip.json")
    """How the clip norm moves from round to round (JSON); may be missing."""
    faults = _In("faults.txt")
    """Errors of the audit during training, a line each; may be missing."""

    @property
    def has_aggregates(self) -> bool:
        """Whether there are files of aggregates; hidden ones are still being written."""
        return any(self.aggregates.glob("[!.]*"))

    def stated(self) -> list[Path]:
        """The files whose content nothing else in the folder confirms; each may be missing."""
        stated = {*self.round_logs(), *(self.path / name for name in self.optional)}
        if self.has_aggregates:
            stated -= {self.round_cosines, self.round_concentrations, self.round_directions}
        return sorted(stated)

    def of_scorer(self) -> tuple[Path, ...]:
        """The files that only `RoundScorer` writes; each may be missing."""
        measured = (self.round_concentrations, self.round_measures, self.round_noise)
        return (*measured, self.direction_sum, self.compared_vectors)

    def side_files(self) -> tuple[str, ...]:
        """The names of files that scores do not depend on."""
        files = (self.adaptive_clip, self.variables, self.claim, self.faults)
        return tuple(path.name for path in files)

    def terms(self) -> tuple[str, ...]:
        """The names of files on which scores by known rounds depend; each may be missing."""
        return self.participation.name, self.noise_correlation.name

    @property
    def optional(self) -> tuple[str, ...]:
        """The names of files that another system may write in addition to the pool."""
        cosines = (self.round_cosines, self.upload_cosines)
        vectors = (self.aggregates, *cosines, self.initial, self.final)
        described = (self.canaries, self.round_lengths, self.round_mechanism, self.variables)
        draws = (self.participation, self.noise_correlation, self.adaptive_clip, self.claim)
        return tuple(path.name for path in (*vectors, *described, *draws))


# The lock of a folder, which ends with the process that holds it, even a killed one.


LOCK_NAME = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of an existing folder while the block runs.

    The system releases the lock (flock) of a killed process, so its leftover file does not block
    other processes. Programs started in the block do not inherit the lock. Raises InputError if
    another process holds the lock.
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


class WriteLock:
    """The lock of a folder, shared within a process and held until the object is collected."""

    _held: ClassVar["weakref.WeakValueDictionary[Path, WriteLock]"] = weakref.WeakValueDictionary()

    def __init__(self, folder: Path) -> None:
        """Takes the lock like `locked`; use `of` instead."""
        held = contextlib.ExitStack()
        held.enter_context(locked(folder))
        weakref.finalize(self, _release, held, os.getpid())

    @classmethod
    def of(cls, folder: Path) -> "WriteLock":
        """The lock that this process holds, or a new one."""
        path = folder.resolve()
        held = cls._held.get(path)
        if held is None:
            try:
                held = cls._held[path] = cls(path)
            except OSError as error:
                raise InputError(f"{folder}: cannot be written: {error.strerror}") from error
        return held


def _release(held: contextlib.ExitStack, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork of the process that took it
        held.close()


def _lock(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder may have removed the file after it was opened here.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError as error:
            holder = os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise InputError(
                f"{path.parent}: another process (number {holder}) is using this folder; wait "
                "until it ends, or choose another folder"
            ) from error
        os.close(descriptor)
