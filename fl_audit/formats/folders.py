"""Run folders and log folders: their files, which files belong together, and the lock of a folder.

Training writes a run folder and does not use estimators; the report reads it and does not use
TensorFlow. A log folder is written by a production system in any language, or by `RoundScorer`;
docs/logs.md describes its format. The content of each is chained by digests (`round_chain`), and
`locked` and `WriteLock` keep a second writer out of a folder.
"""

import contextlib
import fcntl
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fl_audit.errors import InputError
from fl_audit.formats.round_chain import Chain, read_chain


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

        Missing if the null distribution of the canaries' family does not depend on it.
        """
        return self.path / "round_concentrations.npy"

    @property
    def round_directions(self) -> Path:
        """The aggregates' directions (`DirectionLog`), for canaries with several rounds (NPY).

        A run deletes it with the last round.
        """
        return self.path / "round_directions.npy"

    @property
    def round_noise(self) -> Path:
        """What is measured of the noise of each aggregate (`checks.noise_rows`), float32 (NPY)."""
        return self.path / "round_noise.npy"

    @property
    def upload_cosines(self) -> Path:
        """Canaries' cosines with their own uploads, float32 of shape (rounds, canaries) (NPY).

        NaN if a canary has no upload in a round; may be missing.
        """
        return self.path / "upload_cosines.npy"

    @property
    def upload_concentrations(self) -> Path:
        """How much of an upload lies on few coordinates, the largest of each round's (NPY).

        As `round_concentrations`, and missing likewise.
        """
        return self.path / "upload_concentrations.npy"

    @property
    def upload_directions(self) -> Path:
        """The uploads' directions by round and canary, if a canary has several (NPY).

        A run deletes it with the last round.
        """
        return self.path / "upload_directions.npy"

    @property
    def kept_directions(self) -> Path:
        """What is kept of `round_directions` (see `attacks.own_sums.KeptSums`) (NPZ)."""
        return self.path / "kept_directions.npz"

    @property
    def kept_upload_directions(self) -> Path:
        """What is kept of `upload_directions`, likewise (NPZ)."""
        return self.path / "kept_upload_directions.npz"

    def upload_logs(self) -> tuple[Path, ...]:
        """The logs of uploads with a row a round; each may be missing."""
        return (self.upload_cosines, self.upload_concentrations)

    @property
    def compared_vectors(self) -> Path:
        """The concentrations of the compared vectors, by statistic (JSON)."""
        return self.path / "concentrations.json"

    @property
    def chain(self) -> Path:
        """What was written, in order, chained by digests (JSON lines; `round_chain`)."""
        return self.path / "chain.jsonl"

    def checked_chain(self) -> Chain | None:
        """The chain, whose links follow; None where another system wrote the folder."""
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

    @property
    def config(self) -> Path:
        """The resolved config (TOML)."""
        return self.path / "config.toml"

    def identity(self) -> tuple[Path, ...]:
        """The files that say what the run is, before its first round; the last may be missing."""
        sealed = (self.commitment, *self.withheld())
        return (self.config, self.canaries, self.inputs, *sealed)

    def withheld(self) -> tuple[Path, ...]:
        """The secrets of the run, which its owner may keep from others; each may be missing."""
        return (self.schedule_secret, self.opening)

    @property
    def inputs(self) -> Path:
        """The digests of what the run reads besides its config (JSON), see `config.inputs`."""
        return self.path / "inputs.json"

    @property
    def schedule_secret(self) -> Path:
        """What the schedule was drawn from (64 hexadecimal digits); none where the seed draws it.

        Whoever has it knows who was in which round, as `canaries.csv` says of canaries.
        """
        return self.path / "schedule_secret"

    @property
    def commitment(self) -> Path:
        """The commitment that the run began under (JSON)."""
        return self.path / "commitment.json"

    @property
    def opening(self) -> Path:
        """The nonce that opens the commitment (JSON), for the owner only."""
        return self.path / "commitment.json.opening"

    @property
    def metrics(self) -> Path:
        """The metrics, one row per round (CSV)."""
        return self.path / "metrics.csv"

    @property
    def round_products(self) -> Path:
        """The inner product of each example canary's would-be update with each aggregate (NPY)."""
        return self.path / "round_products.npy"

    @property
    def round_signals(self) -> Path:
        """Each round's signal about each example canary (`attacks.update_ratio`) (NPY)."""
        return self.path / "round_signals.npy"

    @property
    def round_energies(self) -> Path:
        """The variances of these signals (NPY)."""
        return self.path / "round_energies.npy"

    @property
    def release_cosines(self) -> Path:
        """The cosine of every canary with every difference of released models, float32 (NPY)."""
        return self.path / "release_cosines.npy"

    @property
    def release_concentrations(self) -> Path:
        """The concentrations of differences of released models, as `round_concentrations` (NPY)."""
        return self.path / "release_concentrations.npy"

    @property
    def aggregates(self) -> Path:
        """Every aggregate's squared length and product with the last one, by variable (NPY)."""
        return self.path / "aggregates.npy"

    @property
    def replay(self) -> Path:
        """The findings of a replay of the first round, before it was trained (JSON)."""
        return self.path / "replay.json"

    @property
    def checkpoint(self) -> Path:
        """The state after the last checkpointed round (NPZ, no pickle)."""
        return self.path / "checkpoint.npz"

    @property
    def record(self) -> Path:
        """The record of the run (JSON; `run_record`); training writes it last."""
        return self.path / "run.json"

    @property
    def model(self) -> Path:
        """The model after the last round (NPZ), see `model_file`."""
        return self.path / "model.npz"

    @property
    def initial_model(self) -> Path:
        """The model before the first round, where a statistic compares both (NPZ)."""
        return self.path / "initial_model.npz"

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
        """The model after these rounds, kept until the next one is released, float32 (NPY)."""
        return self.path / f"released_model_{completed:06}.npy"

    def direction_sum(self, name: str, count: int) -> Path:
        """The sum of the directions of `count` vectors, while a run trains: float64 (NPY)."""
        return self.path / f"direction_sum_{name}_{count:06}.npy"

    def direction_sums(self, name: str = "*") -> list[Path]:
        """The existing sums of directions, of some vectors or of all."""
        return sorted(self.path.glob(f"direction_sum_{name}_[0-9]*.npy"))

    def round_logs(self) -> tuple[Path, ...]:
        """The logs with a row a round; each may be missing."""
        cosines = (self.round_cosines, self.round_concentrations, self.round_directions)
        logs = (self.metrics, *cosines, *self.upload_logs())
        examples = (self.round_products, self.round_signals, self.round_energies)
        return (*logs, *examples, self.aggregates, self.round_noise)

    def release_logs(self) -> tuple[Path, ...]:
        """The logs with a row for each model that is released; each may be missing."""
        return (self.release_cosines, self.release_concentrations)

    def training_outputs(self) -> tuple[Path, ...]:
        """The files besides the logs that exist once training is over; each may be missing."""
        kept = (self.kept_directions, self.kept_upload_directions, *self.direction_sums())
        scored = (self.compared_vectors, *self.path.glob("scores_*.csv"))
        return (self.model, self.initial_model, self.replay, *kept, *scored)

    def released_models(self) -> list[Path]:
        return sorted(self.path.glob("released_model_*.npy"))


@dataclass(frozen=True)
class LogFolder(ScoredFolder):
    """The paths inside a log's folder, whose `canaries.csv` may lack the column `rounds`."""

    @property
    def pool(self) -> Path:
        """The file of the pool: format_version, family, seed, count and dim (JSON)."""
        return self.path / "pool.json"

    def identity(self) -> tuple[Path, ...]:
        """The files that define what is audited; all but the first may be missing."""
        described = (self.participation, self.noise_correlation, self.adaptive_clip)
        return (self.pool, self.canaries, *described)

    @property
    def aggregates(self) -> Path:
        """The folder of the rounds' noised aggregates, named `round_000001.npy` and so on."""
        return self.path / "aggregates"

    @property
    def round_lengths(self) -> Path:
        """The norm of each aggregate and of a client in it, float64 of shape (rounds, 2) (NPY).

        The second is the largest norm that the mechanism allows, clip norm over denominator. NaN if
        a norm is not known; may be missing.
        """
        return self.path / "round_lengths.npy"

    @property
    def round_mechanism(self) -> Path:
        """The noise on a coordinate and the norm bound, float64 of shape (rounds, 2) (NPY).

        The first is the standard deviation of the noise on each coordinate of a round's aggregate,
        the second the largest norm of the aggregate without noise. NaN if one is not known; may be
        missing.
        """
        return self.path / "round_mechanism.npy"

    @property
    def variables(self) -> Path:
        """The sizes of the model's variables, and which are frozen (JSON); may be missing."""
        return self.path / "variables.json"

    @property
    def round_measures(self) -> Path:
        """`RoundScorer`'s measurements of each aggregate, as a run's `aggregates.npy` (NPY)."""
        return self.path / "round_measures.npy"

    def round_logs(self) -> tuple[Path, ...]:
        """The logs with a row a round; each may be missing."""
        cosines = (self.round_cosines, self.round_concentrations, self.round_directions)
        measures = (self.round_measures, self.round_noise)
        facts = (self.round_lengths, self.round_mechanism, *measures)
        return (*cosines, *self.upload_logs(), *facts)

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
        """How clients may participate, and whether a claim counts on it (JSON); may be missing."""
        return self.path / "participation.json"

    @property
    def noise_correlation(self) -> Path:
        """The matrix or the trees that correlate noise over rounds (JSON); may be missing."""
        return self.path / "noise_correlation.json"

    @property
    def claim(self) -> Path:
        """The privacy profile that the training claims, epsilon and delta (CSV); may be missing.

        `estimate` tests it where no other claim is stated.
        """
        return self.path / "claim.csv"

    @property
    def adaptive_clip(self) -> Path:
        """How the clip norm moves from round to round (JSON); may be missing."""
        return self.path / "adaptive_clip.json"

    @property
    def faults(self) -> Path:
        """Errors of the audit itself while training went on, a line each; may be missing."""
        return self.path / "faults.txt"

    def side_files(self) -> tuple[str, ...]:
        """The names of files that do not depend on the scores."""
        described = (self.participation, self.noise_correlation, self.adaptive_clip)
        files = (*described, self.variables, self.claim, self.faults)
        return tuple(path.name for path in files)

    @property
    def optional(self) -> tuple[str, ...]:
        """The names of files that another system may write in addition to the pool."""
        cosines = (self.round_cosines, self.upload_cosines)
        vectors = (self.aggregates, *cosines, self.initial, self.final)
        described = (self.canaries, self.round_lengths, self.round_mechanism, self.variables)
        draws = (self.participation, self.noise_correlation, self.adaptive_clip, self.claim)
        return tuple(path.name for path in (*vectors, *described, *draws))


# The lock of a folder, which ends with the process that holds it, however that ends.


LOCK_NAME = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder, which exists, while the block runs.

    The system releases the lock (flock) of a process that was killed, so that a file which it has
    left does not block others. Programs that the process starts do not hold it. Raises InputError
    if another process holds the lock.
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
    """The lock of a folder until the object, which objects of one process share, is collected."""

    _held: ClassVar["weakref.WeakValueDictionary[Path, WriteLock]"] = weakref.WeakValueDictionary()

    def __init__(self, folder: Path) -> None:
        """Takes the lock, as `locked` does; use `of` instead."""
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
                f"{path.parent}: another process (number {holder}) is at work in this folder; "
                "wait for its end, or choose another folder"
            ) from error
        os.close(descriptor)
