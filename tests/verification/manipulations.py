"""Manipulations of a run's folder, each with the file that `verify` names, and a table of findings.

    python -m tests.verification.manipulations

Careless hands change a file, or damage it as a disk does. Forgers know the program: they write
what follows anew, and every link of the chain, so that whoever has the last link finds all of them.
"""

import contextlib
import io
import itertools
import json
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from fl_audit.formats.folders import RunFolder
from fl_audit.formats.model_file import model_digest
from fl_audit.formats.round_chain import Logged, Saved, Scored, digest_of, read_chain
from fl_audit.verification import Verified, verify_folder
from fl_audit.verification.chain import verify_chain
from tests.engines import toy_engine
from tests.remembered import quick_reports
from tests.verification.toy_runs import (
    another_digit,
    committed_run,
    edit,
    edit_cell,
    edit_json,
    edit_lines,
    nudged,
    relink,
    report_again,
    reseal,
    scores_again,
)

# The runs that are manipulated.

RUNS = {
    "several": (
        'participation.canaries="once_per_epoch"',
        "participation.rounds=18",
        "canaries.count=16",
        "task.dim=300",
        'audit.threat_models=["final", "final_and_initial", "all_iterates", "known_rounds"]',
    ),
    "sampled": (
        'participation={kind="bernoulli",rounds=8,clients_per_round=12}',
        "canaries.count=16",
        "task.dim=300",
        'audit={delta=1e-3,claim="none",release_every=2,threat_models=["final",'
        '"final_and_initial","all_iterates","checkpoints","known_rounds"]}',
    ),
    "matrix": (
        'mechanism={kind="matrix_factorisation",noise_multiplier=0.5,clip_norm=0.5,'
        'strategy="file",coefficients="first_column.npy"}',
        "canaries.count=16",
        "task.dim=300",
    ),
}
"""Canaries in three rounds each; rounds that a secret draws; and noise from a file."""


def make_run(folder: Path, name: str, *overrides: str) -> Path:
    """A finished run of one of `RUNS` in a folder, beside its commitment and its file."""
    folder.mkdir(parents=True)
    np.save(folder / "first_column.npy", [1.0, 0.5, 0.375])
    return committed_run(folder, *RUNS[name], *overrides)


@dataclass(frozen=True)
class Manipulation:
    """What is done to a copy of a run, and what `verify` has to say.

    Attributes:
      of: The run, as in `RUNS`.
      change: The manipulation, of the run's folder; it may read the run of another seed beside it.
      file: The file that is named; "" where only the last link shows it.
      words: What is said of it, in part.
      outcome: The outcome without the last link.
    """

    of: str
    change: Callable[[Path], object]
    file: str
    words: str = ""
    outcome: str = "broken"


# Careless hands.


def _rows_of(change):
    def changed(run, name):
        rows = np.load(run / name)
        change(rows)
        np.save(run / name, rows)

    return changed


def _swap(rows):
    rows[[1, 4]] = rows[[4, 1]]


def _repeat(rows):
    rows[4] = rows[3]


def _flip(rows):
    rows[2].reshape(-1)[1:2].view(np.uint8)[0] ^= 1


def _of_statistic(run, *keys, value):
    edit_json(run / "report.json", "statistics", "own_rounds", *keys, value=value)


def _first_bound(run):
    made = json.loads((run / "report.json").read_text())["statistics"]["own_rounds"]["estimates"]
    return next(n for n, one in enumerate(made) if one["method"] == "threshold_valid")


_NOISE = ("release", "noise", "noise_multiplier")


def _noise(run):
    for key in ("noise_multiplier", "sum_noise_multiplier"):
        edit_json(run / "run.json", *_NOISE[:2], key, value=lambda noise: 2 * noise)


_LIKE = {"csv": "scores_max.csv", "npy": "round_cosines.npy", "json": None}


def _added(name):
    """Adds a file, like another of its kind if there is one."""

    def attack(run):
        like = _LIKE[name.rpartition(".")[2]]
        content = b"[]\n" if like is None else (run / like).read_bytes()
        (run / name).write_bytes(content)

    return attack


def _chain_lines(change):
    return lambda run: edit_lines(run / "chain.jsonl", change)


CARELESS = {
    "report_bound": (
        lambda run: _of_statistic(run, "estimates", _first_bound(run), "epsilon", value=nudged),
        ("report.json", "statistics.own_rounds.estimates"),
    ),
    "report_accuracy": (
        lambda run: edit_json(run / "report.json", "accuracy", value=nudged),
        ("report.json", "`accuracy`"),
    ),
    "report_check": (
        lambda run: edit_json(run / "report.json", "checks", "results", 0, "p_value", value=nudged),
        ("report.json", "`checks.results[0].p_value`"),
    ),
    "report_run": (
        lambda run: edit_json(run / "report.json", "run", *_NOISE, value=lambda _: 0.6),
        ("report.json", f"`run.{'.'.join(_NOISE)}` is 0.6; recomputed: 0.5"),
    ),
    "report_further_key": (
        lambda run: edit(run / "report.json", '"accuracy"', '"award": 1,\n  "accuracy"'),
        ("report.json", "`award` is 1; recomputed: missing"),
    ),
    "score": (
        lambda run: edit_cell(run / "scores_max.csv", 3, 2, another_digit),
        ("scores_max.csv", "canary 2 has `included`"),
    ),
    "score_row_dropped": (
        lambda run: edit_lines(run / "scores_sum.csv", lambda lines: lines[:-1]),
        ("scores_sum.csv", "lists other canaries"),
    ),
    "score_rows_swapped": (
        lambda run: edit_lines(
            run / "scores_own_rounds.csv", lambda one: [one[0], one[2], one[1], *one[3:]]
        ),
        ("scores_own_rounds.csv", "has changed since scores were written"),
    ),
    "cosine": (
        lambda run: _rows_of(_flip)(run, "round_cosines.npy"),
        ("round_cosines.npy", "round 3 has changed since it was logged"),
    ),
    "rounds_swapped": (
        lambda run: _rows_of(_swap)(run, "round_cosines.npy"),
        ("round_cosines.npy", "rounds 2, 5 have changed since they were logged"),
    ),
    "round_repeated": (
        lambda run: _rows_of(_repeat)(run, "round_cosines.npy"),
        ("round_cosines.npy", "round 5 has changed since it was logged"),
    ),
    "concentration": (
        lambda run: _rows_of(_flip)(run, "round_concentrations.npy"),
        ("round_concentrations.npy", "round 3 has changed"),
    ),
    "aggregate_length": (
        lambda run: _rows_of(_flip)(run, "aggregates.npy"),
        ("aggregates.npy", "round 3 has changed"),
    ),
    "metric": (
        lambda run: edit_cell(run / "metrics.csv", 8, 6, another_digit),
        ("metrics.csv", "round 8 has changed"),
    ),
    "metric_row_dropped": (
        lambda run: edit_lines(run / "metrics.csv", lambda lines: [*lines[:4], *lines[5:]]),
        ("metrics.csv", "must hold rounds 1 to 18"),
    ),
    "metric_rows_swapped": (
        lambda run: edit_lines(
            run / "metrics.csv", lambda one: [*one[:3], one[4], one[3], *one[5:]]
        ),
        ("metrics.csv", "rounds 3, 4 have changed"),
    ),
    "round_of_a_canary": (
        lambda run: edit_cell(run / "canaries.csv", 5, 2, lambda own: "1" if own != "1" else "2"),
        ("canaries.csv", "row 5"),
    ),
    "seed": (
        lambda run: edit(run / "config.toml", "seed = 1", "seed = 2"),
        ("config.toml", "key `seed` is 2, which is not what was committed to"),
    ),
    "noise_in_the_record": (
        _noise,
        ("run.json", "noise.sum_noise_multiplier` is 1.0; recomputed: 0.5"),
    ),
    "chain_line_dropped": (
        _chain_lines(lambda lines: [*lines[:4], *lines[5:]]),
        ("chain.jsonl", "line 5 does not follow from the one before it"),
    ),
    "chain_line_repeated": (
        _chain_lines(lambda lines: [*lines[:4], lines[3], *lines[4:]]),
        ("chain.jsonl", "line 5 does not follow"),
    ),
    "chain_lines_swapped": (
        _chain_lines(lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]]),
        ("chain.jsonl", "line 3 does not follow"),
    ),
    "chain_digit": (
        _chain_lines(
            lambda lines: [lines[0], lines[1].replace('"round":1', '"round":2'), *lines[2:]]
        ),
        ("chain.jsonl", "line 2 does not follow"),
    ),
    **{
        f"{name}_added": (_added(name), (name, "was added later"))
        for name in ("scores_Max.csv", "scores_mine.csv", "replay.json", "upload_cosines.npy")
    },
}


# Forgers: scores, and what is known of vectors.


def _scaled_scores(name, factor):
    def attack(run):
        path = run / f"scores_{name}.csv"
        for row in range(1, 17):
            if path.read_text().splitlines()[row].split(",")[1] == "1":
                edit_cell(path, row, 2, lambda score: repr(float(score) * factor))
        report_again(run)

    return attack


def _cell(name, row, column, change, *, rows=False):
    def attack(run):
        edit_cell(run / name, row, column, change)
        report_again(run, rows=rows)

    return attack


def _one_score(name, row, change):
    return _cell(f"scores_{name}.csv", row, 2, change)


def _json(name, *keys, value, again=report_again):
    def attack(run):
        edit_json(run / name, *keys, value=value)
        again(run)

    return attack


def _known(name, change):
    return _json("concentrations.json", "statistics", name, value=change)


def _arrays(name, change, again=report_again):
    """Changes the arrays of an NPZ file, or the one of an NPY file."""

    def attack(run):
        path = run / name
        if path.suffix == ".npz":
            with np.load(path) as file:
                arrays = dict(file)
            np.savez(path, **change(arrays))
        else:
            np.save(path, change(np.load(path)))
        again(run)

    return attack


def _with_spike(arrays):
    worst = arrays["worst"].copy()
    worst[:, 0] += 2.0
    return {**arrays, "worst": worst}


def _with_alike_rounds(arrays):
    products = np.full_like(arrays["products"], 0.5)
    np.fill_diagonal(products, 1.0)
    return {**arrays, "products": products}


def _longer(arrays):
    return {**arrays, "products": 1.2 * arrays["products"]}


def _without(name):
    def attack(run):
        (run / name).unlink()
        reseal(run)

    return attack


def _text(name, change):
    """Changes the bytes of a file, which has the same values then."""

    def attack(run):
        (run / name).write_bytes(change((run / name).read_bytes()))
        reseal(run)

    return attack


def _with_column(content):
    return b"".join(line + b",approved\n" for line in content.splitlines())


SCORES = {
    "last_digit": (_one_score("max", 3, another_digit), "scores_max.csv"),
    "column": (_text("scores_max.csv", _with_column), "scores_max.csv"),
    "other_encoding": (
        _text("scores_sum.csv", lambda content: content.decode().encode("utf-16")),
        "scores_sum.csv",
    ),
    **{
        f"scaled_{name}": (_scaled_scores(name, 0.6), f"scores_{name}.csv")
        for name in ("final", "final_minus_initial", "max", "sum", "own_rounds")
    },
    "raised": (_scaled_scores("own_rounds", 1.5), "scores_own_rounds.csv"),
    "nearly": (_scaled_scores("own_rounds", 0.99), "scores_own_rounds.csv"),
    "one_score": (_one_score("own_rounds", 3, lambda _: "0.01"), "scores_own_rounds.csv"),
    "one_sign": (
        _one_score("final_minus_initial", 5, lambda score: repr(-float(score))),
        "scores_final_minus_initial.csv",
    ),
    "scale_of_the_sum": (_known("sum", lambda one: {**one, "scale": 2.0}), "concentrations.json"),
    "limit_of_own_rounds": (
        _known("own_rounds", lambda one: {**one, "is_limit": True}),
        "concentrations.json",
    ),
    "nothing_known_of_final": (
        _known("final", lambda one: {**one, "vectors": [{"count": 1, "concentration": None}]}),
        "concentrations.json",
    ),
    "more_vectors_behind_max": (
        _known("max", lambda one: {**one, "vectors": [{**one["vectors"][0], "count": 99}]}),
        "concentrations.json",
    ),
    "directions_alike": (
        _arrays("kept_directions.npz", _with_alike_rounds),
        "scores_own_rounds.csv",
    ),
    "directions_longer": (_arrays("kept_directions.npz", _longer), "kept_directions.npz"),
    "directions_with_a_spike": (
        _arrays("kept_directions.npz", _with_spike),
        "kept_directions.npz",
    ),
    "directions_and_more": (
        _arrays("kept_directions.npz", lambda arrays: {**arrays, "approved": np.ones(3)}, reseal),
        "kept_directions.npz",
    ),
    "directions_gone": (_without("kept_directions.npz"), "scores_own_rounds.csv"),
    "sum_of_directions": (
        _arrays("direction_sum_sum_000018.npy", lambda total: 2 * total),
        "direction_sum_sum_000018.npy",
    ),
    "cosines": (
        _arrays("round_cosines.npy", lambda rows: rows[::-1], lambda run: reseal(run, rows=True)),
        "scores_own_rounds.csv",
    ),
}


# The model, and the logs of rounds.


def _other(arrays):
    return {name: array + np.float32(0.001) for name, array in arrays.items()}


def _model_and_digest(run, *, scores=False):
    with np.load(run / "model.npz") as file:
        arrays = _other(dict(file))
    np.savez(run / "model.npz", **arrays)
    digest = model_digest(arrays.values())
    edit_json(run / "run.json", "model_sha256", value=lambda _: digest)
    if scores:
        scores_again(run)
    report_again(run)


def _all_again(run):
    """Writes scores, report and every link anew."""
    scores_again(run)
    report_again(run, rows=True)


def _column(name, value):
    """Changes a column of metrics.csv, and writes all that follows anew."""

    def attack(run):
        path = run / "metrics.csv"
        column = path.read_text().split("\n", 1)[0].split(",").index(name)
        for row in range(1, 19):
            edit_cell(path, row, column, value)
        _all_again(run)

    return attack


def _logs(name, change):
    """Changes an array of rounds, and writes all that follows anew."""
    return _arrays(name, change, _all_again)


def _both(*attacks):
    return lambda run: [attack(run) for attack in attacks]


def _other_signs(rows):
    return np.where((np.arange(len(rows)) % 3 == 1)[:, None], -rows, rows)


def _two_swapped(rows):
    order = np.arange(len(rows))
    order[[2, 9]] = order[[9, 2]]
    return rows[order]


def _third_gone(rows):
    return np.where(np.arange(len(rows))[:, None] == 2, np.nan, rows).astype(rows.dtype)


def _raised_products(rows):
    return rows * np.where(np.arange(rows.shape[-1]) == 1, 50, 1)


def _more_large(rows):
    rows = rows.copy()
    rows[:, 6:9] = rows[:, 5:6]
    return rows


def _no_tests(rows):
    rows = rows.copy()
    rows[:, :3] = 0.0
    return rows


def _none_large(rows):
    rows = rows.copy()
    rows[:, 6:14] = 0.0  # all thresholds from half of the noise on
    return rows


def _in_two(arrays):
    (model,) = arrays.values()
    return {"variable_0000": model[:100], "variable_0001": model[100:]}


def _twice(content):
    """A model after one of zeros of the same name, which other readers may take."""
    with np.load(io.BytesIO(content)) as file:
        ((name, model),) = file.items()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        for array in (0 * model, model):
            with warnings.catch_warnings(action="ignore"):
                member = members.open(f"{name}.npy", "w")
            with member:
                np.lib.format.write_array(member, array)
    return archive.getvalue()


_SWAPPED = {
    "aggregates.npy": "aggregates.npy",
    "direction_sum_sum_000018.npy": "direction_sum_sum_000018.npy",
    "kept_directions.npz": "kept_directions.npz",
    "metrics.csv": "metrics.csv",
    "model.npz": "model.npz",
    "round_cosines.npy": "model.npz",
    "round_noise.npy": "round_noise.npy",
    "run.json": "run.json",
}
"""Files that another run of the config may lend, and where that shows."""


def _swapped(name):
    def attack(run):
        shutil.copy(run.parent / "other" / name, run)
        _all_again(run)

    return attack


MODEL = {
    "aggregates_doubled": (_logs("aggregates.npy", lambda rows: 2 * rows), "aggregates.npy"),
    "aggregates_and_norms_doubled": (
        _both(
            _column("aggregate_norm", lambda norm: f"{2 * float(norm):.9g}"),
            _logs("aggregates.npy", lambda rows: 4 * rows),
        ),
        "model.npz",
    ),
    "products_of_aggregates": (_logs("aggregates.npy", _raised_products), "aggregates.npy"),
    "two_aggregates_swapped": (_logs("aggregates.npy", _two_swapped), "aggregates.npy"),
    "noise_doubled": (_logs("round_noise.npy", lambda rows: 2 * rows), "round_noise.npy"),
    "noise_halved": (_logs("round_noise.npy", lambda rows: rows / 2), "model.npz"),
    "noise_of_two_rounds_swapped": (_logs("round_noise.npy", _two_swapped), "round_noise.npy"),
    "noise_not_measured": (
        _logs("round_noise.npy", lambda rows: np.full_like(rows, np.nan)),
        "round_noise.npy",
    ),
    "no_failed_tests_of_noise": (_logs("round_noise.npy", _no_tests), ""),
    "counts_of_coordinates": (_logs("round_noise.npy", _more_large), "round_noise.npy"),
    "fewer_large_coordinates": (_logs("round_noise.npy", _none_large), "round_noise.npy"),
    "products_forgotten": (
        _logs("aggregates.npy", lambda rows: rows * np.array([1, 0])),
        "aggregates.npy",
    ),
    "concentrations_of_rounds": (_logs("round_concentrations.npy", lambda rows: rows / 2), ""),
    "variables": (_arrays("model.npz", _in_two), "run.json"),
    "array_twice": (_text("model.npz", _twice), "model.npz"),
    "before_a_model": (_text("model.npz", lambda content: b"#!/bin/sh\n" + content), "model.npz"),
    **{f"{name}_of_other_run": (_swapped(name), file) for name, file in _SWAPPED.items()},
    "cosines_of_several_rounds": (_logs("round_cosines.npy", _other_signs), "model.npz"),
    "cosines_scaled": (_logs("round_cosines.npy", lambda rows: 0.5 * rows), "model.npz"),
    "cosines_of_a_round_gone": (_logs("round_cosines.npy", _third_gone), "kept_directions.npz"),
    "cosines_of_two_rounds_swapped": (_logs("round_cosines.npy", _two_swapped), "model.npz"),
    "model": (_arrays("model.npz", _other), "run.json"),
    "model_and_digest": (_model_and_digest, "scores_final.csv"),
    "model_and_scores": (lambda run: _model_and_digest(run, scores=True), "model.npz"),
    "longer_aggregates": (
        _column("aggregate_norm", lambda norm: f"{1.5 * float(norm):.9g}"),
        "model.npz",
    ),
    "more_clients": (_column("num_clients", lambda n: str(int(n) + 3)), "metrics.csv"),
    "fewer_canaries": (_column("num_canaries", lambda n: "0"), "metrics.csv"),
    "smaller_clip_norm": (_column("clip_norm", lambda _: "0.25"), "metrics.csv"),
    "more_noise": (_column("noise_stddev", lambda _: "1.25"), "metrics.csv"),
    "live_bound": (_column("epsilon_lower_bound", lambda _: "0.5"), "metrics.csv"),
    "losses": (_column("train_loss", lambda _: "0.01"), ""),
    "initial_model": (_arrays("initial_model.npz", _other), "scores_final_minus_initial.csv"),
    "digest": (_json("run.json", "model_sha256", value=lambda _: "0" * 64), "run.json"),
    "model_gone": (_without("model.npz"), "model.npz"),
    "model_empty": (_text("model.npz", lambda _: b""), "model.npz"),
}


# Config, inputs, coins, record.


def _config(old, new, again=report_again):
    def attack(run):
        edit(run / "config.toml", old, new)
        again(run)

    return attack


def _coin(run):
    for name in ("canaries.csv", *(path.name for path in run.glob("scores_*.csv"))):
        edit_cell(run / name, 4, 1, lambda coin: str(1 - int(coin)))
    report_again(run)


def _round_twice(run):
    def change(lines):
        at = next(n for n, one in enumerate(lines) if isinstance(one, Logged) and one.round == 4)
        return [*lines[: at + 1], lines[at], *lines[at + 1 :]]

    relink(run, change)


RECORD = {
    "seed": (_config("seed = 1", "seed = 2", reseal), "canaries.csv"),
    "participations": (
        _json("run.json", "release", "client", "sampling", "at_most", value=lambda _: 1),
        "run.json",
    ),
    "metric": (_cell("metrics.csv", 18, 7, lambda _: "0.99", rows=True), "run.json"),
    "claim": (_config("claimed_epsilon = 20.0", "claimed_epsilon = 30.0"), "config.toml"),
    "method": (_config('"threshold_valid"', '"one_run_valid"'), "config.toml"),
    "statistic": (_config('statistic = "own_rounds"', 'statistic = "final"'), "config.toml"),
    "noise": (_config("noise_multiplier = 0.5", "noise_multiplier = 1.5"), "config.toml"),
    "data": (_json("inputs.json", "data", value=lambda _: "0" * 64), "inputs.json"),
    "examples": (_json("inputs.json", "examples", value=lambda n: n + 1), "inputs.json"),
    "clients": (_json("inputs.json", "clients", value=lambda n: n + 1), "run.json"),
    "inputs_gone": (_without("inputs.json"), "inputs.json"),
    "coin": (_coin, "canaries.csv"),
    "accuracy": (_json("run.json", "accuracy", value=lambda _: 0.99), "run.json"),
    "delta": (_json("run.json", "delta", value=lambda _: 1e-2), "run.json"),
    "included": (_json("run.json", "num_included", value=lambda n: n - 1), "run.json"),
    "nonce": (
        _json("commitment.json.opening", "nonce", value=lambda _: "0" * 64),
        "commitment.json.opening",
    ),
    "another_try": (_json("commitment.json", "number", value=lambda _: 2), "commitment.json"),
    "commitment_gone": (_without("commitment.json"), "commitment.json"),
    "commitment_empty": (_text("commitment.json", lambda _: b""), "commitment.json"),
    "clients_in_both": (
        _both(
            _json("inputs.json", "clients", value=lambda n: 10 * n),
            _json("run.json", "num_clients", value=lambda n: 10 * n),
        ),
        "run.json",
    ),
    "remark": (_text("config.toml", lambda content: b"# approved\n" + content), "config.toml"),
    "task": (_json("run.json", "task", value=lambda _: "digits"), "run.json"),
    "labels": (_json("run.json", "labels", value=lambda _: "numbers"), "run.json"),
    "accuracy_of": (_json("run.json", "accuracy_description", value=lambda _: "a"), "run.json"),
    "runtime": (_json("run.json", "runtime", value=lambda _: "jax, on 8 GPUs"), ""),
    "versions": (_json("run.json", "versions", value=lambda _: {"jax": "9.9"}), ""),
    "finished": (_json("run.json", "finished", value=lambda _: "2020-01-01T00:00:00"), ""),
    "accuracy_in_both": (
        _both(
            _json("run.json", "accuracy", value=lambda _: 0.99),
            _column("accuracy", lambda _: "0.99"),
        ),
        "",
    ),
}
"""Those without a file change what `run.json` or a log alone records; the last link shows them."""


# Forgers: reports and added files, which are sealed again as they are.


def _reported(*keys, value):
    return _json("report.json", *keys, value=value, again=reseal)


def _lines(change, kind=Scored):
    """Changes the chain's lines of one kind, and leaves out those of which nothing remains."""

    def changed(lines):
        all_lines = [change(line) if isinstance(line, kind) else line for line in lines]
        return [line for line in all_lines if line is not None]

    return lambda run: relink(run, changed)


def _sealed(name):
    """Adds a file, and its digest to the chain."""
    seal = _lines(lambda line: msgspec.structs.replace(line, files={**line.files, name: ""}))
    return _both(_added(name), seal, report_again)


def _scored(**changed):
    return _lines(lambda line: msgspec.structs.replace(line, **changed))


def _key_twice(content):
    """JSON whose first key is there once more, of which some readers take the first."""
    key = content.split(b'"')[1]
    return content.replace(b"{", b'{"%b":1,' % key, 1)


def _without_log(name):
    def change(line):
        rows = {log: row for log, row in line.rows.items() if log != name}
        return msgspec.structs.replace(line, rows=rows)

    return _both(lambda run: (run / name).unlink(), _lines(change, Logged), report_again)


REPORT = {
    "outcome": (_reported("verdict", "outcome", value=lambda _: "consistent!"), "report.json"),
    "bound": (_reported("verdict", "epsilon_lower", value=lambda e: e / 2), "report.json"),
    "reason": (_reported("verdict", "reason", value=lambda _: "all is well"), "report.json"),
    "claim_tested": (_reported("verdict", "claim", "epsilon", value=lambda _: 9.0), "report.json"),
    "guarantee": (_reported("analytical_epsilon", value=lambda e: e / 2), "report.json"),
    "canary_check": (_reported("arrival", "state", value=lambda _: "arrived!"), "report.json"),
    "digest_reported": (_reported("model_sha256", value=lambda _: "0" * 64), "report.json"),
    "page": (lambda run: (edit(run / "report.html", "20", "21"), reseal(run)), "report.html"),
    "page_line_ends": (
        _text("report.html", lambda content: content.replace(b"\n", b"\r\n")),
        "report.html",
    ),
    **{
        f"{name}_added": (_sealed(name), name)
        for name in ("scores_mine.csv", "replay.json", "upload_cosines.npy")
    },
    "key_twice": (_text("report.json", _key_twice), "report.json"),
    "key_twice_in_vectors": (_text("concentrations.json", _key_twice), "concentrations.json"),
    "cosines_gone": (_without_log("round_cosines.npy"), "round_cosines.npy"),
    "model_of_the_chain": (_scored(model_sha256="0" * 64), "chain.jsonl"),
    "record_left_out": (_scored(files={}), "run.json"),
    "round_twice": (_round_twice, "chain.jsonl"),
    "round_left_out": (
        lambda run: relink(run, lambda ls: [one for one in ls if getattr(one, "round", 0) != 4]),
        "chain.jsonl",
    ),
    "last_rounds_left_out": (
        _lines(lambda line: line if line.round <= 15 else None, Logged),
        "chain.jsonl",
    ),
    "checkpoint_of_another_round": (
        _lines(lambda line: Saved(rounds=line.rounds + 1, files=line.files), Saved),
        "chain.jsonl",
    ),
    "scores_left_out": (_lines(lambda line: None), "chain.jsonl"),
    "chain_gone": (lambda run: (run / "chain.jsonl").unlink(), "chain.jsonl"),
    "report_gone": (_without("report.json"), "report.json"),
}

# Damage, as by a disk.

FILES = {
    "aggregates.npy",
    "canaries.csv",
    "chain.jsonl",
    "commitment.json",
    "commitment.json.opening",
    "concentrations.json",
    "config.toml",
    "direction_sum_checkpoints_sum_000004.npy",
    "direction_sum_sum_000008.npy",
    "initial_model.npz",
    "inputs.json",
    "kept_directions.npz",
    "metrics.csv",
    "model.npz",
    "release_concentrations.npy",
    "release_cosines.npy",
    "report.html",
    "report.json",
    "round_concentrations.npy",
    "round_cosines.npy",
    "round_noise.npy",
    "run.json",
    "schedule_secret",
    "scores_checkpoints_max.csv",
    "scores_checkpoints_sum.csv",
    "scores_final.csv",
    "scores_final_minus_initial.csv",
    "scores_max.csv",
    "scores_own_rounds.csv",
    "scores_sum.csv",
}
UNREAD = {".lock", "checkpoint.npz"}
"""Files on which no result depends, as also TensorBoard's."""

WITHHELD = {"commitment.json.opening": "commitment.json", "schedule_secret": "canaries.csv"}
"""Files that may be missing, and what is then not made again."""


def _removed(path, other):
    path.unlink()


def _emptied(path, other):
    path.write_bytes(b"")


def _truncated(path, other):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _one_byte(path, other):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _of_other_run(path, other):
    shutil.copy(other, path)


def _scaled(path, other):
    for row in range(1, 17):
        edit_cell(path, row, 2, lambda score: repr(0.6 * float(score)))


DAMAGE = {
    "removed": _removed,
    "emptied": _emptied,
    "truncated": _truncated,
    "one_byte": _one_byte,
    "of_other_run": _of_other_run,
    "scaled": _scaled,
}
_SAME_IN_BOTH = {"initial_model.npz"}


def _damaged(file, name):
    return lambda run: DAMAGE[name](run / file, run.parent / "other" / file)


def _damages() -> Iterator[tuple[str, Manipulation]]:
    for file, (name, _) in itertools.product(sorted(FILES), DAMAGE.items()):
        if (name == "scaled" and not file.startswith("scores_")) or (
            name == "of_other_run" and file in _SAME_IN_BOTH
        ):
            continue
        made, found = _damaged(file, name), (file, "", "broken")
        if name == "removed" and file in WITHHELD:
            found = (WITHHELD[file], file, "partly")
        yield f"damage_{file}_{name}", Manipulation("sampled", made, *found)


# Files that the run reads.


def _coefficients(run):
    np.save(run.parent / "first_column.npy", [1.0, 0.25, 0.125])


def _coefficients_and_digest(run):
    _coefficients(run)
    now = digest_of(run.parent / "first_column.npy")
    _json("inputs.json", "files", "mechanism.coefficients", value=lambda _: now)(run)


# All of them.


def _all() -> Iterator[tuple[str, Manipulation]]:
    for name, (change, (file, words)) in CARELESS.items():
        yield f"careless_{name}", Manipulation("several", change, file, words)
    forged = SCORES | MODEL | RECORD | REPORT
    assert len(forged) == sum(map(len, (SCORES, MODEL, RECORD, REPORT)))
    for name, (change, file) in forged.items():
        outcome = "held" if not file else "partly" if name == "directions_gone" else "broken"
        yield f"forged_{name}", Manipulation("several", change, file, "", outcome)
    yield "coefficients", Manipulation("matrix", _coefficients, "first_column.npy")
    yield "coefficients_resealed", Manipulation("matrix", _coefficients_and_digest, "inputs.json")
    yield from _damages()


MANIPULATIONS = dict(_all())


def base_of(bases: Path, name: str) -> Path:
    """The folder of one of `RUNS`, and of another seed in `second`; made where it lacks."""
    base = bases / name
    if not base.exists():
        make_run(base, name)
        make_run(base / "second", name, "seed=6")
    return base


def manipulated(bases: Path, name: str, folder: Path) -> tuple[Path, str]:
    """A manipulated copy of its run in `bases`, and the last link before."""
    manipulation = MANIPULATIONS[name]
    if manipulation.of == "matrix":  # its config names the file in the folder of the base
        make_run(folder / "matrix", "matrix")
        run = folder / "matrix" / "run"
    else:
        base = base_of(bases, manipulation.of)
        run = shutil.copytree(base / "run", folder / "run")
        shutil.copytree(base / "second" / "run", folder / "other")
        shutil.copy(base / "commitment.json", folder)
    link = read_chain(run / "chain.jsonl").lines[-1].link
    manipulation.change(run)
    return run, link


def verified(run: Path) -> Verified:
    return verify_folder(run, run.parent / "commitment.json")


def main() -> None:
    """Prints what is found of each manipulation, without and with the last link."""
    toy_engine.register()
    with tempfile.TemporaryDirectory() as bases, quick_reports(lambda: False):
        for number, name in enumerate(MANIPULATIONS, start=1):
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
                run, link = manipulated(Path(bases), name, Path(folder))
                alone, by_link = verified(run), Verified()
                verify_chain(RunFolder(run), link, by_link)
            found = [*map(str, alone.findings), *alone.not_made_again, *map(str, by_link.findings)]
            with_link = "broken" if by_link.findings else alone.outcome
            columns = (str(number), name, alone.outcome, with_link, *found[:1])
            sys.stdout.write("\t".join(columns) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
