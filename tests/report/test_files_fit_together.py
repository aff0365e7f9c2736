"""Files of a folder that are about different rounds, pools or runs."""

import json
import re
import shutil

import numpy as np
import pytest

from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.comparison.reported_run import read_reported_runs
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.formats.participation_files import Participation
from fl_audit.formats.round_chain import ChainWriter, Scored, digests_of
from fl_audit.formats.score_file import write_score_file
from fl_audit.report.build import EstimateRequest, report_on_folder
from fl_audit.report.finished_run import read_finished_run
from fl_audit.report.folder import AuditedFolder, folder_statistics

POOL = CanaryPool(seed=3, count=60, dim=400)
OWN = [[1 + canary % 10] for canary in range(POOL.count)]
ROUNDS = 10
SEEN = np.random.default_rng(5).normal(size=(ROUNDS, POOL.dim)).astype(np.float32)


def leaky() -> np.ndarray:
    """Rounds without noise to speak of, in each of which its included canaries are."""
    found = 1e-3 * SEEN
    for canary in np.flatnonzero(POOL.included):
        found[OWN[canary][0] - 1] += POOL.vector(int(canary))
    return found


def score(scorer: RoundScorer, seen: np.ndarray, numbers) -> None:
    for number in numbers:
        scorer.score_round(number, seen[number - 1])


@pytest.fixture
def scorer(tmp_path) -> RoundScorer:
    """Five rounds with noise are scored and finished; the noise is lost from then on."""
    made = RoundScorer.create(tmp_path / "audit", POOL, ROUNDS, canary_rounds=OWN)
    score(made, SEEN, range(1, 6))
    made.finish()
    return made


def scores(path) -> dict[str, np.ndarray]:
    found = folder_statistics(AuditedFolder(path))
    return {
        str(one.name): np.concatenate([one.scores.included, one.scores.excluded]) for one in found
    }


def lower_bound(path) -> float:
    report = report_on_folder(AuditedFolder(path), EstimateRequest(1e-3))
    found = [one for made in report.statistics.values() for one in made.estimates]
    return max(one.epsilon for one in found if one.kind == "lower_bound")


def stated_log(path, **stated) -> RoundScorer:
    """A finished log that keeps cosines and no aggregates."""
    scorer = RoundScorer.create(path, POOL, ROUNDS, canary_rounds=OWN, **stated)
    for number, aggregate in enumerate(leaky(), start=1):
        scorer.score_round(number, aggregate, canary_length=1.0)
    scorer.finish()
    return scorer


def test_finished_scores_count_as_long_as_nothing_has_changed(scorer):
    folder = scorer.folder
    chain = folder.checked_chain()
    assert chain is not None
    assert chain.scored_rounds == 5
    assert chain.changed(folder.path) == []
    assert set(scores(folder.path)) == {"max", "sum", "own_rounds"}


def test_rounds_after_finish_make_the_scores_anew(scorer):
    path = scorer.folder.path
    before = scores(path)
    score(scorer, leaky(), range(6, 11))
    after = scores(path)
    for name in ("max", "sum", "own_rounds"):
        assert np.abs(after[name] - before[name]).max() > 0.1
    RoundScorer.open(path).finish()
    finished = scores(path)
    for name, values in after.items():
        np.testing.assert_array_equal(values, finished[name])


def test_scores_of_a_model_that_the_rounds_have_left_behind_are_refused(scorer):
    path = scorer.folder.path
    scorer.finish(final=SEEN[0])
    assert "final" in scores(path)
    score(scorer, leaky(), [6])
    message = r"scores_final\.csv cannot be computed.*round_cosines\.npy does not match"
    with pytest.raises(InputError, match=message):
        folder_statistics(AuditedFolder(path))
    RoundScorer.open(path).finish()
    assert set(scores(path)) == {"max", "sum", "own_rounds"}


def test_a_folder_without_a_chain_reads_where_nothing_contradicts(scorer):
    scorer.finish(final=SEEN[0])
    before = scores(scorer.folder.path)
    scorer.folder.chain.unlink()
    after = scores(scorer.folder.path)
    assert before.keys() == after.keys()
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[name])


@pytest.mark.parametrize("name", ["pool.json", "canaries.csv"])
def test_another_pool_beside_the_cosines_is_refused(scorer, name):
    path = scorer.folder.path / name
    for scored in scorer.folder.path.glob("scores_*.csv"):
        scored.unlink()
    text = path.read_text()
    path.write_text(text.replace('"seed": 3', '"seed": 4').replace("\n1,1,2\n", "\n1,0,2\n"))
    assert path.read_text() != text
    for read in (RoundScorer.open, lambda folder: folder_statistics(AuditedFolder(folder))):
        with pytest.raises(InputError, match=f"{name}: has changed since the canaries of round_c"):
            read(scorer.folder.path)


@pytest.fixture
def both(tmp_path, scorer) -> LogFolder:
    """Old cosines, with noise, beside new aggregates, without."""
    folder = LogFolder(tmp_path / "both")
    folder.path.mkdir()
    for path in (scorer.folder.pool, scorer.folder.canaries, scorer.folder.round_cosines):
        shutil.copy(path, folder.path)
    folder.aggregates.mkdir()
    for number, aggregate in enumerate(leaky(), start=1):
        np.save(folder.aggregates / f"round_{number}.npy", aggregate)
    return folder


def test_cosines_of_other_rounds_than_the_aggregates_are_refused(both):
    message = (
        f"^{re.escape(str(both.round_cosines))}: does not match aggregates/: they have "
        "5 and 10 rounds, and only aggregates has round 6; delete the older of the two$"
    )
    with pytest.raises(InputError, match=message):
        folder_statistics(AuditedFolder(both.path))
    both.round_cosines.unlink()
    assert lower_bound(both.path) > 3


def test_a_crash_while_scores_are_written_leaves_no_mixture(scorer, monkeypatch):
    score(scorer, leaky(), range(6, 11))
    written = []

    def crash(path, file):
        if written:
            raise OSError("the disk is gone")
        write_score_file(path, file)
        written.append(path)

    monkeypatch.setattr("fl_audit.attacks.log_scores.write_score_file", crash)
    with pytest.raises(OSError, match="gone"):
        scorer.finish()
    monkeypatch.undo()
    left = scores(scorer.folder.path)
    scorer.finish()
    for name, values in scores(scorer.folder.path).items():
        np.testing.assert_array_equal(values, left[name])


def chained(run: RunFolder, rounds: int = 40) -> None:
    """Begins the chain of a run that is over."""
    chain = ChainWriter.begin(run.chain, run.identity())
    for number in range(1, 41):
        chain.log_round(number, [run.aggregates])
    chain.add(Scored(rounds=rounds, files=digests_of(run.training_outputs())))


def test_a_run_whose_files_have_changed_is_refused(run_folder):
    chained(run_folder)
    read_finished_run(run_folder)
    scored = run_folder.scores("max")
    text = scored.read_text()
    scored.write_text(text.replace(",1,", ",1,1", 1))
    for read in (read_finished_run, lambda run: folder_statistics(AuditedFolder(run.path))):
        with pytest.raises(InputError, match=r"scores_max\.csv: has changed since the run wrote"):
            read(run_folder)
    scored.write_text(text)
    chained(run_folder, rounds=30)
    with pytest.raises(InputError, match=r"run\.json: is of 40 rounds, but chain\.jsonl of 30"):
        read_finished_run(run_folder)


def test_a_report_of_another_run_is_not_compared(reported, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(reported.folder.path, other)
    read_reported_runs([reported.folder.path, other])
    record = json.loads((other / "run.json").read_text())
    (other / "run.json").write_text(json.dumps(record | {"training_seconds": 1.0}))
    with pytest.raises(InputError, match=r"report\.json: is the report of another run than run\."):
        read_reported_runs([reported.folder.path, other])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("participation.json", '{"sampling": "none", "client_rounds": 2}'),
        ("participation.json", None),
        ("noise_correlation.json", '{"first_column": [1.0, 0.5]}'),
    ],
)
def test_what_is_said_after_scores_were_made_is_noticed(tmp_path, name, text):
    scorer = stated_log(tmp_path / "audit", participation=Participation("none", client_rounds=1))
    folder = scorer.folder

    def canary_check():
        return report_on_folder(AuditedFolder(folder.path), EstimateRequest(1e-3)).canary_check

    before = canary_check()
    assert before.state == "arrived"
    if text is None:
        (folder.path / name).unlink()
    else:
        (folder.path / name).write_text(text)
    found = canary_check()
    assert found.state == "cannot_tell"
    assert f"{name} has changed since canaries were scored" in found.reason


def test_scores_follow_from_what_is_said_now(tmp_path):
    correlated = stated_log(tmp_path / "audit", noise_correlation=Toeplitz((1.0, 0.5), ROUNDS))
    plain = scores(stated_log(tmp_path / "plain").folder.path)
    before = scores(correlated.folder.path)
    assert np.abs(before["own_rounds"] - plain["own_rounds"]).max() > 1e-3
    correlated.folder.noise_correlation.unlink()
    after = scores(correlated.folder.path)
    assert before.keys() == after.keys() == plain.keys()
    assert all(np.allclose(after[name], plain[name], atol=1e-6) for name in plain)
