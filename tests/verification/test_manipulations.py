"""Manipulations of a run's folder: each is found, and the file that it is in is named.

`careless` ones change a file; `careful` ones write the chain anew too, and the report where that
helps. What nobody can find is in docs/verify.md: a folder that was written anew as a whole.
"""

import shutil

import numpy as np
import pytest

from fl_audit import load_config, start_run
from fl_audit.config.commitment import tries_of
from fl_audit.formats.round_chain import Logged
from fl_audit.verification import verify_folder
from tests.verification.toy_runs import (
    another_digit,
    edit,
    edit_cell,
    edit_json,
    edit_lines,
    nudged,
    relink,
    report_again,
    reseal,
)


def _rows(change):
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
    import json

    made = json.loads((run / "report.json").read_text())["statistics"]["own_rounds"]["estimates"]
    return next(n for n, one in enumerate(made) if one["method"] == "threshold_valid")


def _noise(run):
    for key in ("noise_multiplier", "sum_noise_multiplier"):
        edit_json(run / "run.json", "release", "noise", key, value=lambda noise: 2 * noise)


def _chain_lines(change):
    return lambda run: edit_lines(run / "chain.jsonl", change)


CARELESS = {
    "report_bound": (
        lambda run: _of_statistic(run, "estimates", _first_bound(run), "epsilon", value=nudged),
        ("report.json", "statistics.own_rounds.estimates"),
    ),
    "report_outcome": (
        lambda run: edit_json(run / "report.json", "verdict", "outcome", value=lambda _: "x"),
        ("report.json", "`verdict.outcome` is 'x'"),
    ),
    "report_accuracy": (
        lambda run: edit_json(run / "report.json", "accuracy", value=nudged),
        ("report.json", "`accuracy`"),
    ),
    "report_guarantee": (
        lambda run: edit_json(run / "report.json", "analytical_epsilon", value=nudged),
        ("report.json", "`analytical_epsilon`"),
    ),
    "report_check": (
        lambda run: edit_json(run / "report.json", "checks", "results", 0, "p_value", value=nudged),
        ("report.json", "`checks.results[0].p_value`"),
    ),
    "report_run": (
        lambda run: edit_json(run / "report.json", "run", "noise_multiplier", value=lambda _: 0.6),
        ("report.json", "`run.noise_multiplier` is 0.6, and 0.5 follows"),
    ),
    "report_without_arrival": (
        lambda run: edit_json(run / "report.json", "arrival", "state", value=lambda _: "arrived!"),
        ("report.json", "`arrival.state`"),
    ),
    "report_further_key": (
        lambda run: edit(run / "report.json", '"accuracy"', '"award": 1,\n  "accuracy"'),
        ("report.json", "`award` is 1, and missing follows"),
    ),
    "page": (
        lambda run: edit(run / "report.html", "20", "21"),
        ("report.html", "has changed since the report was written"),
    ),
    "score": (
        lambda run: edit_cell(run / "scores_max.csv", 3, 2, another_digit),
        ("scores_max.csv", "canary 2 has included"),
    ),
    "score_of_the_model": (
        lambda run: edit_cell(run / "scores_final.csv", 3, 2, another_digit),
        ("scores_final.csv", "has changed since scores were written"),
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
    "scores_gone": (
        lambda run: (run / "scores_max.csv").unlink(),
        ("scores_max.csv", "is missing"),
    ),
    "cosine": (
        lambda run: _rows(_flip)(run, "round_cosines.npy"),
        ("round_cosines.npy", "round 3 has changed since it was logged"),
    ),
    "rounds_swapped": (
        lambda run: _rows(_swap)(run, "round_cosines.npy"),
        ("round_cosines.npy", "rounds 2, 5 have changed since they were logged"),
    ),
    "round_repeated": (
        lambda run: _rows(_repeat)(run, "round_cosines.npy"),
        ("round_cosines.npy", "round 5 has changed since it was logged"),
    ),
    "concentration": (
        lambda run: _rows(_flip)(run, "round_concentrations.npy"),
        ("round_concentrations.npy", "round 3 has changed"),
    ),
    "aggregate_length": (
        lambda run: _rows(_flip)(run, "aggregates.npy"),
        ("aggregates.npy", "round 3 has changed"),
    ),
    "metric": (
        lambda run: edit_cell(run / "metrics.csv", 8, 7, another_digit),
        ("metrics.csv", "round 8 has changed"),
    ),
    "metric_row_dropped": (
        lambda run: edit_lines(run / "metrics.csv", lambda lines: [*lines[:4], *lines[5:]]),
        ("metrics.csv", "must hold rounds 1 to 8"),
    ),
    "metric_rows_swapped": (
        lambda run: edit_lines(
            run / "metrics.csv", lambda one: [*one[:3], one[4], one[3], *one[5:]]
        ),
        ("metrics.csv", "rounds 3, 4 have changed"),
    ),
    "coin": (
        lambda run: edit_cell(run / "canaries.csv", 2, 1, lambda coin: str(1 - int(coin))),
        ("canaries.csv", "the seed of the config draws"),
    ),
    "round_of_a_canary": (
        lambda run: edit_cell(run / "canaries.csv", 5, 2, lambda own: "1" if own != "1" else "2"),
        ("canaries.csv", "row 5"),
    ),
    "seed": (
        lambda run: edit(run / "config.toml", "seed = 1", "seed = 2"),
        ("config.toml", "key `seed` is 2, which is not what was committed to"),
    ),
    "claim": (
        lambda run: edit(run / "config.toml", "claimed_epsilon = 20.0", "claimed_epsilon = 30.0"),
        ("config.toml", "has changed since the audit began"),
    ),
    "config_gone": (lambda run: (run / "config.toml").unlink(), ("config.toml", "is missing")),
    "noise_in_the_record": (
        _noise,
        ("run.json", "noise.sum_noise_multiplier` is 1.0, and 0.5 follows"),
    ),
    "delta_in_the_record": (
        lambda run: edit_json(run / "run.json", "delta", value=lambda _: 1e-2),
        ("run.json", "`delta` is 0.01, and 0.001 follows"),
    ),
    "vectors_behind_scores": (
        lambda run: edit_json(
            run / "concentrations.json", "statistics", "max", "scale", value=lambda _: 2.0
        ),
        ("concentrations.json", "`statistics.max` is not what the logs give"),
    ),
    "echo": (
        lambda run: edit_json(run / "first_round_echo.json", "product", value=lambda p: 2 * p),
        ("first_round_echo.json", "has changed since scores were written"),
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
    "chain_gone": (
        lambda run: (run / "chain.jsonl").unlink(),
        ("commitment.json", "the chain does not begin with it"),
    ),
    "another_nonce": (
        lambda run: edit_json(run / "commitment.json.opening", "nonce", value=lambda _: "0" * 64),
        ("commitment.json.opening", "its nonce does not open the commitment"),
    ),
}


def _score_and_report(run):
    edit_cell(run / "scores_own_rounds.csv", 3, 2, another_digit)
    report_again(run)


def _coin_and_report(run):
    for name in ("canaries.csv", *(path.name for path in run.glob("scores_*.csv"))):
        edit_cell(run / name, 2, 1, lambda coin: str(1 - int(coin)))
    report_again(run)


def _claim_and_report(run):
    edit(run / "config.toml", "claimed_epsilon = 20.0", "claimed_epsilon = 30.0")
    report_again(run)


def _seed(run):
    edit(run / "config.toml", "seed = 1", "seed = 2")
    reseal(run)


def _report_alone(run):
    edit_json(run / "report.json", "accuracy", value=lambda accuracy: accuracy + 0.01)
    reseal(run)


def _participations_and_report(run):
    client = ("release", "client", "sampling", "at_most")
    edit_json(run / "run.json", *client, value=lambda _: 1)
    report_again(run)


def _metric_and_report(run):
    edit_cell(run / "metrics.csv", 8, 7, lambda _: "0.99")
    report_again(run, rows=True)


def _round_twice(run):
    def change(lines):
        at = next(n for n, one in enumerate(lines) if isinstance(one, Logged) and one.round == 4)
        return [*lines[: at + 1], lines[at], *lines[at + 1 :]]

    relink(run, change)


CAREFUL = {
    "score": (_score_and_report, ("scores_own_rounds.csv", "; the logs give")),
    "coin": (_coin_and_report, ("canaries.csv", "the seed of the config draws")),
    "claim": (_claim_and_report, ("config.toml", "key `audit.claimed_epsilon` is 30.0, which is")),
    "seed": (_seed, ("canaries.csv", "the seed of the config draws")),
    "report": (_report_alone, ("report.json", "`accuracy`")),
    "participations": (
        _participations_and_report,
        ("run.json", "client.sampling.at_most` is 1"),
    ),
    "metric": (_metric_and_report, ("run.json", "and 0.99 follows")),
    "round_twice": (_round_twice, ("chain.jsonl", "is round 4 after round 4")),
}

_QUICK = {"report_bound", "score", "coin", "rounds_swapped", "chain_line_dropped", "claim"}


def _cases():
    for kind, cases in (("careless", CARELESS), ("careful", CAREFUL)):
        for name, (change, expected) in cases.items():
            marks = () if name in _QUICK else pytest.mark.slow
            yield pytest.param(change, *expected, id=f"{kind}_{name}", marks=marks)


@pytest.mark.parametrize(("change", "file", "words"), _cases())
def test_a_manipulation_is_found_and_named(finished, tmp_path, change, file, words):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    change(run)
    outcome = verify_folder(run, finished.parent / "commitment.json")
    assert not outcome.held
    named = [one for one in outcome.findings if one.file == file]
    assert any(words in one.what for one in named), list(map(str, outcome.findings))


# A second try.


@pytest.fixture
def tried_twice(finished, tmp_path):
    """A folder with a commitment and two runs under it."""
    for name in ("commitment.json", "commitment.json.opening", "commitment.json.tries"):
        shutil.copy(finished.parent / name, tmp_path)
    shutil.copytree(finished, tmp_path / "run")
    config = load_config(finished.parent / "config.toml")
    start_run(config, tmp_path / "again", commitment=tmp_path / "commitment.json")
    return tmp_path


def test_a_second_try_is_found_from_either_run(tried_twice):
    commitment = tried_twice / "commitment.json"
    of_first = [str(one) for one in verify_folder(tried_twice / "run", commitment).findings]
    of_second = [str(one) for one in verify_folder(tried_twice / "again", commitment).findings]
    assert of_first == [
        "commitment.json.tries: line 2: lists another run under this commitment, in again",
        "commitment.json: again, in the same directory, is another run under it",
    ]
    assert of_second[0] == "commitment.json: is run 2 under this commitment"
    assert len(of_second) == 3


@pytest.mark.slow
def test_a_second_try_is_found_alone(tried_twice):
    commitment = tried_twice / "commitment.json"
    # The first run and the list are gone, and the chain was not written anew.
    shutil.rmtree(tried_twice / "run")
    tries_of(commitment).unlink()
    alone = [str(one) for one in verify_folder(tried_twice / "again", commitment).findings]
    assert alone == ["commitment.json: is run 2 under this commitment"]
    edit_json(tried_twice / "again" / "commitment.json", "number", value=lambda _: 1)
    forged = [str(one) for one in verify_folder(tried_twice / "again", commitment).findings]
    assert forged == ["commitment.json: has changed since the audit began"]


@pytest.mark.slow
def test_a_list_with_a_line_taken_out_is_found(tried_twice):
    commitment = tried_twice / "commitment.json"
    edit_lines(tries_of(commitment), lambda lines: lines[1:])
    found = [str(one) for one in verify_folder(tried_twice / "again", commitment).findings]
    assert "commitment.json.tries: line 1 does not follow from those before it" in found


@pytest.mark.slow
def test_a_commitment_that_was_edited_after_it_was_published_is_found(finished, tmp_path):
    published = tmp_path / "commitment.json"
    shutil.copy(finished.parent / "commitment.json", published)
    edit_json(published, "claim", "claimed_epsilon", value=lambda _: 25.0)
    found = [str(one) for one in verify_folder(finished, published).findings]
    assert found[0].startswith("commitment.json: is another commitment than ")
    assert found[1] == "commitment.json: `claim.claimed_epsilon` is 25.0, and by config.toml 20.0"
