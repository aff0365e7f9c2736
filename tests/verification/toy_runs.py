"""Finished runs of a NumPy engine, and what somebody may do to their folders."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fl_audit import load_config, start_run
from fl_audit.attacks.compared_vectors import write_compared_vectors
from fl_audit.config import Config
from fl_audit.config.commitment import Opened, commitment_to, write_commitment
from fl_audit.config.file import config_to_toml, load_recorded
from fl_audit.config.inputs import read_inputs
from fl_audit.engines.prepare import prepare
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.participation_files import read_canaries
from fl_audit.formats.round_chain import (
    Begun,
    Line,
    Logged,
    Reported,
    Scored,
    _rows,
    digest,
    digest_of,
    linked,
    read_chain,
    text_of,
)
from fl_audit.formats.run_record import read_record
from fl_audit.formats.score_file import write_score_file
from fl_audit.report import write_report
from fl_audit.verification import Verified
from fl_audit.verification.score_files import RunScores

CONFIG = """
runtime = "toy"
seed = 1
[task]
kind = "vectors"
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 0.5
clip_norm = 0.5
[participation]
kind = "shuffle"
rounds = 8
clients_per_round = 10
[canaries]
count = 30
[log]
checkpoint_every = 3
[audit]
delta = 1e-3
claimed_epsilon = 20.0
threat_models = ["final", "all_iterates", "known_rounds"]
verdict_statistic = "own_rounds"
verdict_method = "threshold_valid"
"""


def config_file(path: Path, *overrides: str) -> Path:
    """The config, with lines such as `audit.delta=1e-3` in place of others."""
    path.write_text(CONFIG)
    config = load_config(path, overrides)
    path.write_text(config_to_toml(config))
    return path


def committed(config: Config) -> Opened:
    """A commitment to a config and what it reads."""
    return commitment_to(config, read_inputs(config, prepare(config).task))


def committed_run(folder: Path, *overrides: str) -> Path:
    """A run under a commitment, both in a folder."""
    config = load_config(config_file(folder / "config.toml", *overrides))
    write_commitment(folder / "commitment.json", committed(config))
    start_run(config, folder / "run", commitment=folder / "commitment.json")
    return folder / "run"


# What somebody may do.


def edit(path: Path, old: str, new: str) -> None:
    """Replaces the first of some words, which are there."""
    text = path.read_text()
    assert old in text, (path, old)
    path.write_text(text.replace(old, new, 1))


def edit_json(path: Path, *keys: Any, value: Any) -> None:
    """Changes a value in a JSON file, as a function of what it is."""
    root = json.loads(path.read_text())
    at = root
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value(at[keys[-1]])
    path.write_text(json.dumps(root, indent=2) + "\n")


def edit_cell(path: Path, row: int, column: int, value: Callable[[str], str]) -> None:
    """Changes a cell of a CSV."""
    lines = path.read_text().splitlines()
    cells = lines[row].split(",")
    cells[column] = value(cells[column])
    lines[row] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")


def edit_lines(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Changes the lines of a text."""
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


def another_digit(text: str) -> str:
    """A number with another last digit."""
    return text[:-1] + ("1" if text[-1] != "1" else "2")


def nudged(number: float) -> float:
    """A number that differs in its twelfth digit."""
    return number * (1 + 1e-12)


# Forgers who know the chain.


def relink(folder: Path, change: Callable[[Sequence[Line]], Sequence[Line]] = tuple) -> None:
    """Changes lines of a chain, and makes every link follow."""
    path = folder / "chain.jsonl"
    before, written = "", []
    for line in change(read_chain(path).lines):
        made = linked(line, before)
        written.append(text_of(made))
        before = made.link
    path.write_bytes(b"".join(written))


def reseal(folder: Path, *, rows: bool = False) -> None:
    """Writes the chain anew, with the digests that files have now, and rows if asked for."""

    def change(lines: Sequence[Line]) -> list[Line]:
        return [_resealed(folder, line, rows) for line in lines]

    relink(folder, change)


def _resealed(folder: Path, line: Line, rows: bool) -> Line:
    if isinstance(line, Begun | Scored | Reported):
        files = {name: digest_of(folder / name) for name in line.files if (folder / name).exists()}
        return msgspec.structs.replace(line, files=files)
    if isinstance(line, Logged) and rows:
        found = {
            name: digest(next(_rows(folder / name, [line.round - 1])))
            for name in line.rows
            if (folder / name).exists()
        }
        return msgspec.structs.replace(line, rows=found)
    return line


def scores_again(folder: Path) -> None:
    """Writes the scores that logs and models give now, and what is known of their vectors."""
    run = RunFolder(folder)
    pool = read_canaries(run.canaries)
    of_logs = RunScores(run, load_recorded(run.config), read_record(run), pool)
    scores, compared = of_logs.verify(Verified())
    for name, scored in scores.items():
        write_score_file(run.scores(name), scored)
    write_compared_vectors(run.compared_vectors, compared)


def report_again(folder: Path, *, rows: bool = False) -> None:
    """Seals what has changed, builds the report of it, and seals that too."""
    reseal(folder, rows=rows)
    write_report(RunFolder(folder))
    reseal(folder, rows=rows)
