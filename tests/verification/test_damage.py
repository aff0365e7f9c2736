"""Every file of a run's folder, damaged in every way: `verify` and `release` name the file.

Nothing is written anew, as a copy that failed, a disk or a careless hand does. Attacks by somebody
who knows the program are in `test_attacks`.
"""

import json
import shutil

import pytest

from fl_audit.cli import main
from tests.verification.toy_runs import committed_run, edit_cell

OVERRIDES = (
    'participation={kind="bernoulli",rounds=8,clients_per_round=12}',
    "canaries.count=16",
    "task.dim=300",
    'audit={delta=1e-3,claim="none",release_every=2,threat_models=["final","final_and_initial",'
    '"all_iterates","checkpoints","known_rounds"]}',
)

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

WITHHELD = {"commitment.json.opening", "schedule_secret"}
"""Files that may be missing; what they show is then not made again."""


@pytest.fixture(scope="module")
def runs(toy_runtime, tmp_path_factory):
    """Two folders of runs that differ in their seed, each beside its commitment."""
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    for seed, folder in enumerate(folders):
        committed_run(folder, *OVERRIDES, f"seed={seed + 5}")
    return folders


def test_the_files_are_those_of_a_run(runs):
    found = {path.name for path in (runs[0] / "run").iterdir() if path.is_file()}
    assert found - UNREAD == FILES


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
_QUICK = {
    ("scores_own_rounds.csv", "scaled"),
    ("round_cosines.npy", "one_byte"),
    ("run.json", "emptied"),
    ("model.npz", "of_other_run"),
    ("schedule_secret", "removed"),
}


def _cases():
    for file in sorted(FILES):
        for name in DAMAGE:
            if name == "scaled" and not file.startswith("scores_"):
                continue
            if name == "of_other_run" and file in _SAME_IN_BOTH:
                continue
            quick = (file, name) in _QUICK
            yield pytest.param(file, name, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("file", "name"), _cases())
def test_damage_is_found_and_named(runs, tmp_path, capsys, file, name):
    run, sheet = tmp_path / "run", tmp_path / "sheet.html"
    shutil.copytree(runs[0] / "run", run)
    DAMAGE[name](run / file, runs[1] / "run" / file)
    status = main(["verify", str(run), "--json"])
    said = json.loads(capsys.readouterr().out)
    if name == "removed" and file in WITHHELD:
        assert (status, said["outcome"], said["findings"]) == (5, "partly", [])
        return
    assert (status, said["outcome"]) == (1, "broken")
    named = {finding["file"] for finding in said["findings"]}
    if (file, name) == ("chain.jsonl", "of_other_run"):
        assert len(named) > 20  # by it, every other file has changed
    else:
        assert file in named, said["findings"]
    if name in ("removed", "one_byte"):
        status = main(["release", str(run), "--out", str(sheet)])
        assert status == (2 if (file, name) == ("report.json", "removed") else 1)
        assert file in capsys.readouterr().err
        assert not sheet.exists()


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(UNREAD))
def test_files_that_nothing_reads_may_be_missing(runs, tmp_path, file):
    shutil.copytree(runs[0] / "run", tmp_path / "run")
    (tmp_path / "run" / file).unlink(missing_ok=True)
    assert main(["verify", str(tmp_path / "run")]) == 0
