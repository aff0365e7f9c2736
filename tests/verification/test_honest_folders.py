"""Honest folders, all of which hold: however they were made, interrupted, moved or copied."""

import dataclasses
import json
import shutil

import msgspec
import numpy as np
import pytest

from fl_audit import continue_run, load_config, start_run
from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.canaries.pool import write_pool
from fl_audit.cli import main
from fl_audit.config.commitment import write_commitment
from fl_audit.config.tries import check_listed
from fl_audit.errors import InputError, Interrupted
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.formats.participation_files import Participation
from fl_audit.formats.round_chain import ChainWriter, Resumed, Scored, read_chain
from fl_audit.formats.round_logs import ConcentrationLog, LoggedTotal
from fl_audit.formats.score_file import read_score_file, write_score_file
from fl_audit.participation import PATTERNS, ParticipationPattern
from fl_audit.run.observers import RoundObserver
from fl_audit.verification import verify_folder
from fl_audit.version import __version__, code_digest
from tests.config_tables.test_toy_kinds import (
    OddAndEven,
    canary_rounds,
    client_rounds,
    schedule_of,
)
from tests.verification.toy_runs import (
    another_digit,
    committed,
    committed_run,
    config_file,
    edit,
    edit_cell,
    edit_json,
    nudged,
    relink,
    reseal,
)


def check(folder, commitment=None, **known):
    outcome = verify_folder(folder, commitment, **known)
    assert outcome.held, list(map(str, outcome.findings))
    return " | ".join(outcome.notes)


def test_a_finished_run(finished):
    notes = check(finished, finished.parent / "commitment.json")
    assert notes.startswith("chain: 8 rounds; its last link is ")


def test_a_run_that_was_moved_and_renamed(finished, tmp_path):
    moved = tmp_path / "elsewhere" / "another name & more"
    shutil.copytree(finished, moved)
    check(moved)
    check(moved, finished.parent / "commitment.json")
    notes = check(moved.rename(tmp_path / "a"))  # a letter of which the page is full
    assert notes.endswith("report.html: names another folder, 'run'")


def test_a_copy_beside_a_run_is_no_second_try(finished, tmp_path):
    for name in ("one", "copy"):
        shutil.copytree(finished, tmp_path / name)
    check(tmp_path / "copy", finished.parent / "commitment.json")


# Runs of every kind.


KINDS = {
    "no_claim": ('audit.verdict_statistic="all"', "audit={delta=1e-3}"),
    "contradicted_claim": ("audit.claimed_epsilon=0.1",),
    "configured": ('audit={delta=1e-3,claim="configured"}',),
    "no_canary_in_a_round": (
        'participation={kind="bernoulli",rounds=2,clients_per_round=1}',
        "seed=4",
    ),
    "claimed_profile": ("audit={delta=1e-3,claimed_profile=[[0.5,0.2],[9.0,1e-4]]}",),
    "curve_stopped": (
        "audit={delta=1e-3,claimed_rho=0.01,stop_when_contradicted=true}",
        "canaries.count=200",
    ),
    "fixed_half": ('canaries.inclusion="fixed_half"',),
    "pairs": ('canaries.inclusion="pairs"',),
    "unequal_coins": ('canaries.inclusion="unequal_coins"', "canaries.inclusion_probability=0.3"),
    "gaussian": ('canaries.family="gaussian"',),
    "hadamard": ('canaries.family="hadamard"',),
    "dirac": ('canaries.family="dirac"', 'audit.verdict_statistic="max"'),
    "several_rounds": ("participation.canary_repeats=3",),
    "every_round": (
        'participation={kind="every_round",rounds=6}',
        'audit.verdict_statistic="max"',
        'audit.threat_models=["all_iterates"]',
    ),
    "bernoulli": ('participation={kind="bernoulli",rounds=6,clients_per_round=12}',),
    "uniform": ('participation={kind="uniform",rounds=6,clients_per_round=12}',),
    "checkpoints": (
        'audit.threat_models=["checkpoints", "known_rounds"]',
        "audit.release_every=3",
    ),
    "window": (
        'audit.threat_models=["window", "known_rounds"]',
        "audit.window_first_round=2",
        "audit.window_last_round=5",
    ),
    "delta_of_the_clients": ('audit={claimed_epsilon=20.0,threat_models=["known_rounds"]}',),
    "noise_for_an_epsilon": (
        'mechanism={kind="gaussian_fixed",epsilon=8.0,clip_norm=0.5}',
        'participation={kind="every_round",rounds=4}',
        'audit.verdict_statistic="max"',
        'audit.threat_models=["all_iterates"]',
    ),
    "stopped": (
        "audit.claimed_epsilon=0.05",
        "audit.stop_when_contradicted=true",
        "canaries.count=200",
    ),
}


@pytest.mark.parametrize("most_kept", [0, 8])
def test_a_likelihood_of_one_round_each_is_made_again_from_kept_directions(
    toy_runtime, tmp_path, monkeypatch, most_kept
):
    """They are kept up to a number of rounds; beyond, the chain alone covers the scores."""
    monkeypatch.setattr("fl_audit.attacks.own_sums.MOST_KEPT", most_kept)
    run = committed_run(
        tmp_path, 'canaries.family="gaussian"', 'audit.threat_models=["secret_rounds"]',
        'audit.verdict_statistic="likelihood_ratio"',
    )  # fmt: skip
    path = RunFolder(run).scores("likelihood_ratio")
    edit_cell(path, 1, 2, lambda text: repr(nudged(float(text))))
    reseal(run)
    outcome = verify_folder(run, tmp_path / "commitment.json")
    assert path.name not in {one.file for one in outcome.findings}
    assert (path.name in outcome.not_made_again) == (most_kept == 0)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(name, marks=() if name == "pairs" else pytest.mark.slow) for name in KINDS],
)
def test_a_run_of_a_kind(toy_runtime, tmp_path, kind):
    run = committed_run(tmp_path, *KINDS[kind])
    check(run, tmp_path / "commitment.json")
    stopped = json.loads((tmp_path / "run" / "run.json").read_text())["stopped_after"]
    assert (stopped is not None) == (kind in ("stopped", "curve_stopped"))


def test_a_run_with_a_plugin_is_verified_as_far_as_it_is_known(toy_runtime, tmp_path, capsys):
    rounds = 'participation={kind="odd_and_even",rounds=6}'
    known = 'audit.threat_models=["all_iterates", "known_rounds"]'
    PATTERNS.register(
        ParticipationPattern(OddAndEven, schedule_of, client_rounds, canary_rounds, False)
    )
    try:
        path = config_file(tmp_path / "config.toml", rounds, known)
        path.write_text(f'plugins = ["json"]\n{path.read_text()}')
        start_run(load_config(path), tmp_path / "run")
        check(tmp_path / "run")
    finally:
        PATTERNS.remove("odd_and_even")
    verified = verify_folder(tmp_path / "run")
    assert (verified.outcome, verified.findings) == ("partly", [])
    assert verified.not_made_again == ["canaries.csv", "run.json", "report.html"]
    assert verified.notes[-1] == "the report was made with plugins, not imported here"
    sheet = tmp_path / "sheet.html"
    assert main(["release", str(tmp_path / "run"), "--out", str(sheet)]) == 0
    assert "canaries.csv, run.json, report.html" in capsys.readouterr().out
    assert "as the kind &#39;odd_and_even&#39; of a plugin decides" in sheet.read_text()
    edit_cell(tmp_path / "run" / "scores_own_rounds.csv", 3, 2, another_digit)
    assert verify_folder(tmp_path / "run").outcome == "broken"


# Runs that were interrupted.


class _Killed(BaseException):
    """The end of a process."""


class _Kill(RoundObserver):
    def __init__(self, number):
        self._number = number

    def round_finished(self, finished):
        if finished.metrics.round == self._number:
            raise _Killed


class _Stop(RoundObserver):
    def __init__(self, number):
        self._number = number

    def round_finished(self, finished):
        import os
        import signal

        if finished.metrics.round == self._number:
            os.kill(os.getpid(), signal.SIGTERM)


KILLS = [(2,), (4,), (5, 7), (8,), (1, 1, 6)]


@pytest.mark.parametrize(
    "rounds", [pytest.param(one, marks=() if one == (5, 7) else pytest.mark.slow) for one in KILLS]
)
def test_a_run_that_was_killed_and_resumed(toy_runtime, tmp_path, rounds):
    config = load_config(config_file(tmp_path / "config.toml"))
    write_commitment(tmp_path / "commitment.json", committed(config))
    go = start_run
    for number in rounds:
        with pytest.raises(_Killed):
            go(config, tmp_path / "run", [_Kill(number)], commitment=tmp_path / "commitment.json")
        go = continue_run
    continue_run(config, tmp_path / "run")
    notes = check(tmp_path / "run", tmp_path / "commitment.json")
    assert f"8 rounds in {1 + len(rounds)} sessions" in notes
    assert ("logged again" in notes) == any((number - 1) % 3 for number in rounds)


def _killed(*_):
    raise _Killed


@pytest.mark.parametrize("before", ["open_chain", "make_attackers"])
def test_a_run_that_was_killed_before_it_was_listed(toy_runtime, tmp_path, monkeypatch, before):
    config = load_config(config_file(tmp_path / "config.toml"))
    commitment = tmp_path / "commitment.json"
    write_commitment(commitment, committed(config))
    with monkeypatch.context() as patched, pytest.raises(_Killed):
        patched.setattr(f"fl_audit.run.train.{before}", _killed)
        start_run(config, tmp_path / "run", commitment=commitment)
    assert not (tmp_path / "commitment.json.tries").exists()
    with pytest.raises(InputError, match=r"run: was begun under a commitment; resume it with"):
        continue_run(config, tmp_path / "run")
    continue_run(config, tmp_path / "run", commitment=commitment)
    assert len((tmp_path / "commitment.json.tries").read_text().splitlines()) == 1
    check(tmp_path / "run", commitment)


def test_a_listed_run_whose_rounds_were_dropped_is_resumed_as_before(tmp_path):
    folder = RunFolder(tmp_path)
    folder.commitment.write_text("{}")
    chain = ChainWriter.begin(folder.chain, [])
    with pytest.raises(InputError, match="was begun under a commitment"):
        check_listed(folder)
    chain.log_round(1, [])
    chain.add(Resumed(rounds=0))
    check_listed(folder)


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 5])
def test_a_run_that_was_stopped_by_a_signal_and_resumed(toy_runtime, tmp_path, number):
    config = load_config(config_file(tmp_path / "config.toml"))
    with pytest.raises(Interrupted):
        start_run(config, tmp_path / "run", [_Stop(number)])
    with (tmp_path / "run" / "chain.jsonl").open("a") as file:
        file.write('{"what":"round"')  # as a kill in the middle of a line leaves it
    continue_run(config, tmp_path / "run")
    assert "8 rounds in 2 sessions;" in check(tmp_path / "run")


@pytest.mark.slow
def test_a_run_that_was_resumed_after_it_had_finished(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    continue_run(load_config(finished.parent / "config.toml"), tmp_path / "run")
    check(tmp_path / "run")
    (tmp_path / "run" / "report.json").unlink()  # killed before its report was written
    continue_run(load_config(finished.parent / "config.toml"), tmp_path / "run")
    check(tmp_path / "run")


def of_other_code(run):
    """Writes the chain anew, with a report that other code made."""

    def change(lines):
        return [*lines[:-1], msgspec.structs.replace(lines[-1], code="0a")]

    relink(run, change)
    reseal(run)
    return verify_folder(run)


def test_a_report_of_other_code_that_says_the_same_holds(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    assert of_other_code(tmp_path / "run").outcome == "held"


@pytest.mark.parametrize("name", ["report.json", "report.html"])
def test_words_of_a_report_of_other_code_are_covered_by_the_chain_alone(finished, tmp_path, name):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    if name == "report.json":
        edit_json(run / name, "verdict", "reason", value=lambda _: "what other code said of it")
    else:
        edit(run / name, "20", "21")
    verified = of_other_code(run)
    assert (verified.outcome, verified.not_made_again) == ("partly", [name]), verified.findings
    (words,) = [note for note in verified.notes if "the report was made by" in note]
    assert words.endswith(f", code 0a; here {__version__}, {code_digest()}")
    sheet = tmp_path / "sheet.html"
    assert main(["release", str(run), "--out", str(sheet)]) == 0
    assert f"covered only by the chain of digests: {name}." in sheet.read_text()
    assert "what other code said" not in sheet.read_text()  # sheets are made of what is made again


# Logs.


POOL = CanaryPool(seed=3, count=40, dim=300)
OWN = [[1 + canary % 6] for canary in range(POOL.count)]
AGGREGATES = np.random.default_rng(5).normal(size=(6, POOL.dim)).astype(np.float32)


def last_link(path):
    return read_chain(path / "chain.jsonl").lines[-1].link


def check_log(path):
    return check(path, link=last_link(path))


def scored(path, **options):
    scorer = RoundScorer.create(path, POOL, 6, **options)
    for number in (1, 2, 3, 4, 5):
        scorer.score_round(number, AGGREGATES[number - 1], canary_length=0.1)
    return scorer


def test_a_log_of_a_round_scorer(tmp_path):
    scored(tmp_path / "log", canary_rounds=OWN).finish()
    assert check_log(tmp_path / "log").startswith("chain: 5 rounds; its last link is ")
    alone = verify_folder(tmp_path / "log")
    assert (alone.outcome, alone.not_made_again) == ("partly", [
        "canaries.csv", "round_concentrations.npy", "round_cosines.npy", "round_lengths.npy"
    ])  # fmt: skip
    (tmp_path / "log" / "aggregates").mkdir()
    (tmp_path / "log" / "aggregates" / ".round_1.npy").touch()
    assert {*alone.not_made_again} < {*verify_folder(tmp_path / "log").not_made_again}


def test_a_log_whose_sums_have_other_last_digits_as_on_another_processor(tmp_path):
    several = [[1, 2 + canary % 5] for canary in range(POOL.count)]
    folder = scored(tmp_path / "log", canary_rounds=several).folder
    RoundScorer.open(folder.path).finish()
    path = folder.scores("own_rounds")
    scores = read_score_file(path)
    for factor, found in ((1 + 1e-12, 0), (1 + 1e-6, 1)):
        write_score_file(path, dataclasses.replace(scores, score=scores.score * factor))
        reseal(folder.path)
        assert len(verify_folder(folder.path).findings) == found


def test_a_log_that_was_never_finished_has_no_scores_yet(tmp_path):
    scored(tmp_path / "log")
    check_log(tmp_path / "log")


def test_a_log_whose_rounds_go_on_after_its_scores(tmp_path):
    scorer = scored(tmp_path / "log", canary_rounds=OWN)
    scorer.finish()
    scorer.score_round(6, AGGREGATES[5])
    outcome = verify_folder(tmp_path / "log", link=last_link(tmp_path / "log"))
    assert outcome.outcome == "partly", list(map(str, outcome.findings))
    assert "rounds were logged after the last scores" in outcome.notes[-1]


def test_a_log_that_notes_faults_after_its_scores_but_drops_none(tmp_path):
    scorer = scored(tmp_path / "log", canary_rounds=OWN)
    faults = scorer.folder.faults
    faults.write_text("round 2: one\nround 3: two\n")
    scorer.finish()
    with faults.open("a") as file:
        file.write("evaluation: three\n")
    check_log(tmp_path / "log")
    faults.write_text("round 2: one\nevaluation: three\n")
    (found,) = verify_folder(tmp_path / "log").findings
    assert str(found) == "faults.txt: has changed since scores were written"


def test_a_log_whose_rounds_came_again_after_a_restart(tmp_path):
    scored(tmp_path / "log", canary_rounds=OWN)
    scorer = RoundScorer.open(tmp_path / "log")
    for number in (4, 5, 6):
        scorer.score_round(number, AGGREGATES[number - 1] + 1)
    scorer.finish(final=AGGREGATES[0])
    scorer.finish(final=AGGREGATES[0], initial=AGGREGATES[1])
    outcome = verify_folder(tmp_path / "log", link=last_link(tmp_path / "log"))
    assert "chain: 6 rounds, 2 rounds logged again" in outcome.notes[0]
    assert outcome.outcome == "partly"
    assert outcome.not_made_again == ["scores_final.csv", "scores_final_minus_initial.csv"]
    np.save(tmp_path / "log" / "final.npy", AGGREGATES[0])
    np.save(tmp_path / "log" / "initial.npy", AGGREGATES[1])
    check_log(tmp_path / "log")


def test_a_log_whose_mechanism_is_measured_and_whose_first_round_comes_again(tmp_path):
    options = {
        "variable_sizes": [200, 100],
        "participation": Participation("none", client_rounds=1),
    }
    scorer = RoundScorer.create(tmp_path / "log", POOL, 6, canary_rounds=OWN, **options)
    for number in (1, 2, 3, 1):
        scorer.score_round(number, AGGREGATES[number - 1], noise_stddev=1.0, norm_bound=2.0)
    scorer.finish()
    check_log(tmp_path / "log")


@pytest.mark.parametrize("number", [1, 3, 6])
@pytest.mark.parametrize(
    ("log", "name"),
    [(LoggedTotal, "add"), (ConcentrationLog, "write_round"), (ChainWriter, "log_round")],
)
def test_a_log_whose_server_was_killed_in_a_round(tmp_path, monkeypatch, log, name, number):
    scorer = RoundScorer.create(tmp_path / "log", POOL, 6, canary_rounds=OWN)
    for earlier in (1, 2, 3, 4, 5):
        scorer.score_round(earlier, AGGREGATES[earlier - 1], noise_stddev=1.0)
    scorer.finish()

    def killed(*args, **kwargs):
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(log, name, killed)
        with pytest.raises(_Killed):
            scorer.score_round(number, AGGREGATES[number - 1] + 1, noise_stddev=1.0)
    cut = verify_folder(tmp_path / "log", link=last_link(tmp_path / "log"))
    assert cut.outcome == "partly", list(map(str, cut.findings))
    assert f"round {number} is not in the chain" in " ".join(cut.notes)
    RoundScorer.open(tmp_path / "log").finish()
    check_log(tmp_path / "log")
    scorer = RoundScorer.open(tmp_path / "log")
    scorer.score_round(number, AGGREGATES[number - 1], noise_stddev=1.0)
    scorer.finish()
    check_log(tmp_path / "log")


@pytest.mark.parametrize("has_models", [False, True])
def test_a_log_of_another_system(tmp_path, has_models):
    folder = LogFolder(tmp_path / "log")
    folder.aggregates.mkdir(parents=True)
    write_pool(folder.pool, POOL)
    for number, aggregate in enumerate(AGGREGATES, start=1):
        np.save(folder.aggregates / f"round_{number}.npy", aggregate)
    if has_models:
        np.save(folder.initial, np.zeros(POOL.dim, np.float32))
        np.save(folder.final, AGGREGATES.sum(axis=0))
    outcome = verify_folder(folder.path)
    assert (outcome.outcome, outcome.notes[0][:10]) == ("partly", "no chain: ")
    models = ["final.npy", "initial.npy"] if has_models else []
    assert outcome.not_made_again == ["aggregates", *models]


def test_a_log_whose_coins_were_somebody_elses(tmp_path):
    folder = LogFolder(tmp_path / "log")
    folder.aggregates.mkdir(parents=True)
    write_pool(folder.pool, POOL)
    np.save(folder.aggregates / "round_1.npy", AGGREGATES[0])
    rows = [f"{canary},{canary % 2}" for canary in range(POOL.count)]
    folder.canaries.write_text("canary_id,included\n" + "\n".join(rows) + "\n")
    outcome = verify_folder(folder.path)
    assert outcome.not_made_again == ["aggregates", "canaries.csv"]
    assert "another system decided who participates" in " ".join(outcome.notes)


@pytest.mark.slow
def test_a_report_that_was_cut_off_by_a_kill_behind_it(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    relink(tmp_path / "run", lambda lines: lines[:-1])
    assert isinstance(read_chain(tmp_path / "run" / "chain.jsonl").lines[-1], Scored)
    assert "the report is not in the chain" in check(tmp_path / "run")
