"""Many runs of one config, in parallel on Ray, from the grid to the comparison.

`read_grid` reads a sweep's file into runs; a run's folder shows its state. Ray tasks on this
machine perform the unfinished runs, several at a time. A process performs up to eight runs in turn,
but only one with a GPU or with a user's code. sweep.json is updated whenever a run ends, and the
page that compares the runs is written last.
"""

import copy
import dataclasses
import itertools
import json
import math
import os
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from fl_audit.comparison import comparison_of, csv_text, read_reported_runs, render_comparison
from fl_audit.config import Config
from fl_audit.config.file import config_of_table, config_to_toml, parse_config, set_key
from fl_audit.config_tables.kinds import NonNegativeInt, Table
from fl_audit.engines.ray.cluster import end_with_parent, lost_part, quiet_ray, ray_on_this_machine
from fl_audit.errors import InputError, lines_of, one_line
from fl_audit.formats.folders import RunFolder, locked
from fl_audit.formats.run_record import read_record
from fl_audit.formats.text_files import read_foreign, read_toml, unfinished_files, write_text
from fl_audit.library_words import json_words
from fl_audit.number_words import count, duration, significant
from fl_audit.pipeline import continue_run, start_run
from fl_audit.progress import Progress, bar, warn
from fl_audit.resources import num_cores
from fl_audit.run.folder_and_checkpoints import check_new, check_same_config
from fl_audit.tasks.task_kinds import PythonTask

_LONGEST_NAME = 120


class Variant(Table, frozen=True):
    """A named change of the base config.

    Attributes:
      name: Prefix of the names of the variant's runs.
      set: The values of the changed keys, by `section.key`.
    """

    name: str
    set: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it


class GridFile(Table, frozen=True):
    """A sweep's file.

    Attributes:
      base: The base config of all runs; a relative path starts at the sweep's file.
      seeds: The seeds of every setting; empty keeps the base config's.
      grid: The values of each `section.key`; all combinations are trained.
      variant: Named changes that are combined with the grid.
    """

    base: str
    seeds: tuple[NonNegativeInt, ...] = ()
    grid: dict[str, list[Any]] = {}  # noqa: RUF012 - msgspec copies it
    variant: tuple[Variant, ...] = ()

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants; without any, one that changes nothing."""
        return self.variant or (Variant(name=""),)


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep."""

    name: str  # the name of its folder
    settings: Mapping[str, Any]  # the keys of the base config that it changes, with their values
    config: Config  # its resolved config


def read_grid(path: Path) -> tuple[SweepRun, ...]:
    """Reads a sweep's file and the configs of all its runs."""
    grid = _read(path)
    base = path.parent / grid.base
    table = read_toml(base)
    runs = tuple(
        _run(table, base, name, settings, path)
        for name, settings in bar(list(_combinations(grid)), "configs", "run", delay=1)
    )
    name, times = Counter(run.name for run in runs).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"{path}: {times} runs would be named {name!r}; no value or name may come twice, "
            "and values that differ only in signs need [[variant]] tables with names"
        )
    return runs


def _read(path: Path) -> GridFile:
    table = read_toml(path)
    if "base" not in table and ("task" in table or "mechanism" in table):
        raise InputError(
            f'{path}: is the config of one run; the file of a sweep has `base = "{path.name}"` and '
            'what varies, such as a table [grid] with `"mechanism.noise_multiplier" = [0.3, 1.0]` '
            "(docs/sweeps.md)"
        )
    try:
        grid = msgspec.convert(table, GridFile)
    except msgspec.ValidationError as error:
        known = (*GridFile.__struct_fields__, *Variant.__struct_fields__)
        raise InputError(f"{path}: {json_words(error, known)}") from error
    _check(grid, path)
    return grid


def _check(grid: GridFile, path: Path) -> None:
    """Raises InputError if the parts of a sweep's file do not fit together."""
    if not (grid.seeds or grid.grid or grid.variant):
        raise InputError(
            f"{path}: describes only one run; must have `seeds`, [grid] or [[variant]]"
        )
    for key, values in grid.grid.items():
        if not values:
            raise InputError(f"{path}: key `grid.{key}`: must have a value, got an empty list")
    for variant in grid.variant:
        if not re.fullmatch(r"[\w.-]+", variant.name, re.ASCII) or variant.name.strip(".") == "":
            raise InputError(
                f"{path}: key `variant.name`: must be letters, digits, `_`, `-` and `.`, as it "
                f"names a folder, got {variant.name!r}"
            )
        if both := sorted(variant.set.keys() & grid.grid.keys()):
            raise InputError(f"{path}: key `{both[0]}` is in [grid] and in {variant.name!r}")
    for variant in grid.variants:
        for table, key in itertools.permutations((*grid.grid, *variant.set), 2):
            if key.startswith(f"{table}."):
                raise InputError(
                    f"{path}: key `{table}` contains key `{key}`; set one or the other"
                )
    is_set = "seed" in grid.grid or any("seed" in variant.set for variant in grid.variant)
    if grid.seeds and is_set:
        raise InputError(
            f"{path}: keys `seed` and `seeds` exclude each other; leave out one of them"
        )


def _combinations(grid: GridFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the settings of every run: by variant, then by the grid's keys, then by seed."""
    short = _short_names(list(grid.grid))
    axes = [[(key, value) for value in values] for key, values in grid.grid.items()]
    seeds = [[("seed", seed) for seed in grid.seeds]] if grid.seeds else []
    for variant in grid.variants:
        for chosen in itertools.product(*axes, *seeds):
            parts = (f"{short.get(key, key)}_{_value_name(value)}" for key, value in chosen)
            name = "-".join([*([variant.name] if variant.name else []), *parts])
            yield name, {**variant.set, **dict(chosen)}


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """The part of each key after its last dot; if that is not unique, the key with underscores."""
    lasts = Counter(key.rpartition(".")[2] for key in keys)
    return {
        key: last if lasts[last := key.rpartition(".")[2]] == 1 else key.replace(".", "_")
        for key in keys
    }


def _value_name(value: Any) -> str:
    """A value as a part of a folder's name: `0.1`, `true`, `min_separation`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return re.sub(r"[^\w.-]+", "_", str(value), flags=re.ASCII)


def _run(
    table: Mapping[str, Any], base: Path, name: str, settings: dict[str, Any], path: Path
) -> SweepRun:
    if len(name) > _LONGEST_NAME:
        raise InputError(
            f"{path}: run {name[:40]}…: the name has {len(name)} characters, at most "
            f"{_LONGEST_NAME} fit; put the values into [[variant]] tables with names"
        )
    changed = copy.deepcopy(dict(table))
    label = f"{path}: run {name}"
    for key, value in settings.items():
        set_key(changed, key, value, label)
    config = config_of_table(changed, base, label)
    if config.runtime == "ray":
        raise InputError(
            f"{label}: key `runtime`: must not be 'ray' in a sweep, whose runs are tasks of Ray "
            "themselves; use 'local'"
        )
    return SweepRun(name, settings, config)


# States of runs, and sweep.json.


State = Literal["planned", "finished", "failed"]


@dataclass(frozen=True)
class RunState:
    """One run of a sweep and its state."""

    name: str  # the name of the run
    settings: Mapping[str, Any]  # the keys of the base config that it changes, with their values
    # `finished` with a report; `failed` if it ended without one; else `planned`: not started,
    # running or interrupted
    state: State
    folder: Path  # its run folder
    error: str | None = None  # why it failed, in one line; None otherwise

    def ended(self, error: str | None) -> "RunState":
        """The state after the run's end: failed with an error, else finished."""
        state: State = "finished" if error is None else "failed"
        return dataclasses.replace(self, state=state, error=error)


def state_on_disk(run: SweepRun, out: Path) -> RunState:
    """The state of a run from its folder in `out`; InputError if the folder is not this run's."""
    folder = RunFolder(out / "runs" / run.name)
    if folder.config.exists() or folder.report_json.exists():
        check_same_config(folder, run.config)
    else:
        check_new(folder.path)
    state: State = "finished" if folder.report_json.exists() else "planned"
    return RunState(run.name, run.settings, state, folder.path)


def sweep_json(states: Sequence[RunState]) -> dict[str, object]:
    """The object of sweep.json."""
    return {"runs": [{**dataclasses.asdict(s), "folder": str(s.folder)} for s in states]}


def write_states(states: Sequence[RunState], out: Path) -> None:
    """Writes sweep.json atomically."""
    text = json.dumps(sweep_json(states), indent=1, default=str)
    write_text(out / "sweep.json", text + "\n")


# One display over all runs, on standard error.


def rounds_at_work(runs: Sequence[SweepRun], at_work: Sequence[RunState]) -> str:
    """The completed rounds of running runs, in words."""
    rounds = {run.name: run.config.participation.rounds for run in runs}
    words = []
    for state in at_work:
        completed, total = _rows(RunFolder(state.folder).metrics), rounds[state.name]
        words.append(f"{state.name} {completed}{'' if total is None else f'/{total}'}")
    return ", ".join(words)


def _rows(metrics: Path) -> int:
    """The number of rounds in a run's metrics."""
    try:
        return max(read_foreign(metrics).count(b"\n") - 1, 0)
    except OSError:
        return 0  # not started


# One run, in a Ray process.


def start_or_continue(
    config_toml: str, out: str, shared: str, cores: int, gpu_share: float
) -> str | None:
    """Starts or resumes a run, possibly on a share of a GPU; returns why it failed, else None."""
    # Imports TensorFlow, which is not needed for a dry run.
    from fl_audit.tasks.client_text import sharing_arrays

    end_with_parent()  # safe to kill at any time: a run resumes from its last checkpoint
    os.environ["OMP_NUM_THREADS"] = str(cores)
    if 0 < gpu_share < 1:
        os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    folder = Path(out)
    try:
        config = parse_config(tomllib.loads(config_toml), out)
        go = continue_run if RunFolder(folder).config.exists() else start_run
        with sharing_arrays(Path(shared)):
            go(config, folder)
    except MemoryError as error:
        return one_line(f"needs more memory than there is: {error}".removesuffix(": "))
    except ValueError as error:  # includes InputError, whose one line suffices
        return one_line(str(error))
    except Exception as error:
        return one_line(f"{type(error).__name__}: {error}")
    return None


# Runs as tasks of Ray.


MEMORY_OF_A_RUN = 2 * 2**30
"""Assumed memory of a run, in bytes, without `--jobs`."""

RUNS_OF_A_PROCESS = 8
"""The number of consecutive runs in a process, which share the import of TensorFlow.

Then a new process takes over, because TensorFlow does not free the memory of graphs (80 MB per
quickstart).
"""

_CALL_AGAIN = "the same command trains the remaining runs and continues interrupted ones"
_SECONDS_BETWEEN_LOOKS = 0.5
_OBJECT_STORE = 80 * 2**20  # only a config and a line are passed; this is Ray's minimum

Work = tuple[SweepRun, RunState]


@dataclass(frozen=True)
class Share:
    """The number of runs at a time, and the resources of each."""

    jobs: int  # runs at a time
    cores: int  # cores of each run, at least 1
    gpus: float  # GPUs of each run; a fraction if runs share one, 0 without a GPU


def share_of(jobs: int | None, cores: int, gpus: int, memory: int, runs: int) -> Share:
    """The number of runs at a time, and the resources of each.

    Args:
      jobs: Number of runs at a time; None takes one per GPU, or per core without a GPU, if memory
        suffices.
      memory: The memory of the machine, in bytes.
      runs: The number of runs to do, which limits the number at a time.
    """
    most = max(1, min(gpus or cores, memory // MEMORY_OF_A_RUN))
    at_a_time = min(most if jobs is None else jobs, max(runs, 1))
    is_shared = gpus < at_a_time
    gpu_share = float(gpus // at_a_time)
    if gpus and is_shared:  # a fraction is of one GPU, so the runs of the fullest GPU decide
        gpu_share = 10_000 // math.ceil(at_a_time / gpus) / 1e4
    return Share(at_a_time, max(1, cores // at_a_time), gpu_share)


def runs_of_a_process(work: Sequence[Work], gpus: int) -> int:
    """The number of runs of a process before a new process takes over.

    It is 1 with a GPU, whose memory TensorFlow keeps until the process ends. It is 1 also if a run
    has a user's module, which may keep state between runs.
    """
    has_own_code = any(
        bool(run.config.plugins) or isinstance(run.config.task, PythonTask) for run, _ in work
    )
    return 1 if gpus or has_own_code else RUNS_OF_A_PROCESS


def run_on_ray(
    work: Sequence[Work],
    shared: Path,
    jobs: int | None,
    ended: Callable[[RunState], None],
    look: Callable[[Sequence[RunState]], None],
) -> None:
    """Runs `work`, `jobs` at a time; the other runs continue if one fails.

    `ended` is called after each run, `look` about twice a second with the runs at work.
    """
    cores = num_cores()
    with ray_on_this_machine(max(cores, jobs or 1), _OBJECT_STORE) as ray:
        resources = ray.cluster_resources()
        gpus, memory = (int(resources.get(kind, 0)) for kind in ("GPU", "memory"))
        share = share_of(jobs, cores, gpus, memory, len(work))
        task = ray.remote(
            num_cpus=share.cores,
            num_gpus=share.gpus,
            max_calls=runs_of_a_process(work, gpus),
            max_retries=0,
        )(start_or_continue)
        waiting = list(reversed(work))
        at_work: dict[Any, RunState] = {}
        while waiting or at_work:
            while waiting and len(at_work) < share.jobs:
                run, state = waiting.pop()
                config, places = config_to_toml(run.config), (state.folder, shared)
                folders = [str(place.resolve()) for place in places]
                future = task.remote(config, *folders, share.cores, share.gpus)
                at_work[future] = state
            done, _ = ray.wait(list(at_work), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
            if (part := lost_part()) is not None:
                raise InputError(f"Ray cannot go on, as {part} has ended; {_CALL_AGAIN}")
            for future in done:
                state = at_work.pop(future)
                ended(state.ended(_error_of(ray, future)))
            look(list(at_work.values()))


def _error_of(ray: Any, future: Any) -> str | None:
    """Why a run failed, else None."""
    try:
        error: str | None = ray.get(future)
    except ray.exceptions.RayError as lost:
        return f"the run's process ended before the run was finished: {lines_of(lost)[0]}"
    return error


# The sweep.


_SHARED = "shared"
"""Folder of shared data, such as a parsed text, kept until all runs are finished."""


def plan_sweep(path: Path, out: Path) -> tuple[RunState, ...]:
    """The runs of a sweep with their states; starts and writes nothing."""
    return _states_on_disk(read_grid(path), out)


def _states_on_disk(runs: Sequence[SweepRun], out: Path) -> tuple[RunState, ...]:
    """The states of all runs, read with a progress bar."""
    looked = bar(runs, "folders", "run", delay=1)
    return tuple(state_on_disk(run, out) for run in looked)


def run_sweep(path: Path, out: Path, jobs: int | None = None) -> tuple[RunState, ...]:
    """Runs all unfinished runs, then writes results and comparison; returns all runs' states.

    Args:
      path: The sweep's file.
      out: The sweep's folder, new or of an earlier call.
      jobs: Number of runs at a time; None chooses by the machine.

    Raises:
      InputError: The file is invalid, a run's folder holds something else, or another sweep is
        running in the folder.
      ModuleNotFoundError: Ray is not installed and a run is left.
    """
    runs = read_grid(path)
    if any(state.state != "finished" for state in _states_on_disk(runs, out)):
        quiet_ray()  # raises unless Ray is installed
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        for left in unfinished_files(out):
            left.unlink()
        states = _run_rest(runs, out, jobs)
        _compare(states, out)
    return states


def _run_rest(runs: Sequence[SweepRun], out: Path, jobs: int | None) -> tuple[RunState, ...]:
    """Runs the unfinished runs and updates sweep.json after each."""
    states = {state.name: state for state in _states_on_disk(runs, out)}
    work = [(run, states[run.name]) for run in runs if states[run.name].state != "finished"]
    write_states(list(states.values()), out)
    if not work:
        return tuple(states.values())
    with Progress("sweep", len(runs), "run", done=len(runs) - len(work)) as progress:

        def ended(state: RunState) -> None:
            states[state.name] = state
            write_states(list(states.values()), out)
            progress.advance()
            if state.error is not None:
                warn(f"{state.name} failed: {state.error}")

        run_on_ray(
            work,
            out / _SHARED,
            jobs,
            ended,
            lambda at_work: progress.note(rounds_at_work(runs, at_work)),
        )
    if all(state.state == "finished" for state in states.values()):
        shutil.rmtree(out / _SHARED, ignore_errors=True)
    return tuple(states.values())


def _compare(states: Sequence[RunState], out: Path) -> None:
    """Writes the finished runs' results, and a page that compares them if there are two or more."""
    finished = [state.folder for state in states if state.state == "finished"]
    if not finished:
        return
    comparison = comparison_of(read_reported_runs(finished))
    write_text(out / "results.csv", csv_text(comparison.records(out)))
    if len(finished) >= 2:
        write_text(out / "compare.html", render_comparison(comparison))


@dataclass(frozen=True)
class RunTime:
    """The time of a run on this machine."""

    start_seconds: float  # from the loaded config to the start of round 1; 0 if not timed
    round_seconds: float  # of a round, on average
    source: str  # the basis of the measurement, in words


def time_of_finished(states: Sequence[RunState]) -> RunTime | None:
    """The mean time of a round over the finished runs; None if no finished run has a record."""
    round_seconds = []
    for folder in (RunFolder(state.folder) for state in states if state.state == "finished"):
        if folder.record.exists():
            record = read_record(folder)
            round_seconds.append(
                (record.training_seconds + record.scoring_seconds) / record.rounds_done
            )
    if not round_seconds:
        return None
    return RunTime(
        0.0,
        sum(round_seconds) / len(round_seconds),
        f"{count(len(round_seconds), 'finished run')} of the sweep",
    )


def calibrated(config: Config, name: str, seconds: float) -> RunTime:
    """The time of a run, measured by training its first rounds on all cores for about `seconds`."""
    from fl_audit.planning.cost import calibrate

    measured = calibrate(config, seconds)
    source = f"{count(measured.rounds_timed, 'round')} of {name}, trained now"
    before = max(0.0, measured.start_seconds - measured.round_seconds)  # without round 1
    return RunTime(before, measured.round_seconds, source)


def hours_line(runs: Sequence[SweepRun], states: Sequence[RunState], time: RunTime) -> str:
    """A line on the time of the remaining runs, one after another, if each takes `time`."""
    left = [
        run.config.participation.rounds
        for run, state in zip(runs, states, strict=True)
        if state.state != "finished"
    ]
    rounds = [number for number in left if number is not None]
    if not rounds:
        return "hours: not known, because the number of rounds depends on the runs' logs"
    seconds = sum(time.start_seconds + number * time.round_seconds for number in rounds)
    measured = f"{significant(time.round_seconds, 2)} s a round, measured on {time.source}"
    unknown = len(left) - len(rounds)
    without = f", without {count(unknown, 'run')} whose rounds depend on a log" if unknown else ""
    hours = f"about {duration(seconds)} for {count(len(rounds), 'run')} in turn{without}"
    return f"hours: {hours}; {measured}"
