"""Folders of finished runs, their reports made from one that the report room has built."""

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_audit.config.file import parse_config
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_chain import ChainWriter, Scored
from fl_audit.formats.run_record import RunRecord, read_record
from fl_audit.formats.score_file import ScoreFile
from fl_audit.report import report_to_json
from fl_audit.report.build import build_report
from fl_audit.report.finished_run import FinishedRun, Rounds
from tests.accounting.releases import release

STATISTICS = ("final", "final_minus_initial", "max", "sum")

DIM = 10_000
NUM_CANARIES = 60

CONFIG = {
    "seed": 1,
    "task": {"kind": "digits"},
    "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 0.5, "clip_norm": 1.0},
    "participation": {"kind": "shuffle", "rounds": 8, "clients_per_round": 10},
    "canaries": {"count": NUM_CANARIES},
    "audit": {"threat_models": ["final", "final_and_initial", "all_iterates"]},
}

MakeRun = Callable[..., Path]

LOST = {"state": "not_arrived", "ratio": None, "reason": "they are missing", "fault": None}
"""The canary check of a run whose canaries never reached an aggregate."""


def list_rounds(folder: Path, rounds: str) -> Path:
    """Gives the run two included canaries, of which the second has `rounds`, in canaries.csv."""
    rows = ["canary_id,included,rounds", "0,1,1", f"1,1,{rounds}", "2,0,1 2 3 4"]
    (folder / "canaries.csv").write_text("\n".join(rows) + "\n")
    return folder


def _scores(included: np.ndarray, rng: np.random.Generator) -> ScoreFile:
    ids = tuple(map(str, range(NUM_CANARIES)))
    return ScoreFile(ids, included, rng.normal(0, DIM**-0.5, NUM_CANARIES) + 0.02 * included)


@pytest.fixture(scope="session")
def built_report() -> dict[str, Any]:
    """As the report room writes it: a change of its keys shows here."""
    rng = np.random.default_rng(3)
    included = rng.random(NUM_CANARIES) < 0.5
    record = RunRecord(
        task="digits",
        runtime="native",
        dim=DIM,
        num_clients=50,
        num_canaries=NUM_CANARIES,
        num_included=int(included.sum()),
        delta=1e-3,
        release=release(0.5, 2, 1, rounds=8),
        accuracy=0.9,
        accuracy_description="share of held-out images classified correctly",
        training_seconds=1.0,
        scoring_seconds=1.0,
        versions={},
        finished="2026-11-22T12:00:00+00:00",
    )
    run = FinishedRun(
        folder=RunFolder(Path("run")),
        config=parse_config(CONFIG, "config"),
        record=record,
        rounds=Rounds(*5 * [np.full(8, np.nan)]),
        canary_rounds=(np.array([2]),) * int(included.sum()),
        scores={name: _scores(included, rng) for name in STATISTICS},
        aggregates=None,
    )
    report = report_to_json(build_report(run))
    del report["config"]["participation"]["epochs"]  # no key of the kinds that tests put there
    return report


def _set(table: dict[str, Any], path: str, value: object) -> None:
    *sections, key = path.split(".")
    for section in sections:
        table = table[section]
    table[key] = value
    if key == "epsilon" and "by_accountant" in table:  # of which an epsilon is the smallest
        reason = "because" if value is None else None
        table["by_accountant"] = [{"accountant": "rdp", "epsilon": value, "reason": reason}]


def _put_epsilon(estimate: dict[str, Any], epsilon: float | str) -> None:
    """Also around it an interval of a tenth on each side, where the method has one."""
    estimate["epsilon"] = epsilon
    if estimate["lower"] is not None and estimate["upper"] is not None:
        is_number = not isinstance(epsilon, str)
        estimate["lower"] = 0.9 * epsilon if is_number else epsilon
        estimate["upper"] = 1.1 * epsilon if is_number else epsilon


@pytest.fixture
def make_run(tmp_path: Path, built_report: dict[str, Any]) -> MakeRun:
    """Writes a finished run: `changes` are paths into report.json, `epsilons` by method."""

    def make(
        name: str,
        changes: Mapping[str, object] | None = None,
        epsilons: Mapping[str, float | str] | None = None,
    ) -> Path:
        report = copy.deepcopy(built_report)
        for path, value in (changes or {}).items():
            _set(report, path, value)
            if path == "config.mechanism.noise_multiplier":
                of_run = {"noise_multiplier": value, "sum_noise_multiplier": value}
                report["run"]["release"]["noise"] |= of_run
        for statistic in report["statistics"].values():
            for estimate in statistic["estimates"]:
                if estimate["method"] in (epsilons or {}):
                    _put_epsilon(estimate, epsilons[estimate["method"]])
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.toml").write_text("")
        (folder / "report.json").write_text(json.dumps(report))
        record = report["run"] | {"accuracy": report["accuracy"]}
        (folder / "run.json").write_text(json.dumps(record))
        chain = ChainWriter.begin(folder / "chain.jsonl", [])
        chain.add(Scored(rounds=read_record(RunFolder(folder)).rounds_done, files={}))
        return folder

    return make
