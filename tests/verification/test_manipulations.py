"""Every manipulation of a run's folder is found, and the file that it is in is named.

What is tried is in `manipulations`; here are also other models, sheets, logs and second tries.
"""

import dataclasses
import errno
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fl_audit import load_config, start_run
from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.attacks.compared_vectors import write_compared_vectors
from fl_audit.attacks.log_scores import score_log
from fl_audit.attacks.logs import read_log
from fl_audit.cli import main
from fl_audit.config.commitment import tries_of
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.participation_files import Participation, write_participation
from fl_audit.formats.round_chain import Logged, read_chain
from fl_audit.formats.score_file import write_score_file
from fl_audit.release_sheet.compare_sheets import verify_sheet
from fl_audit.report.checks import folder_checks
from fl_audit.report.folder import AuditedFolder
from fl_audit.verification import Verified, verify_folder
from fl_audit.verification.chain import verify_chain
from fl_audit.verification.run import _draws
from tests.verification.manipulations import (
    FILES,
    MANIPULATIONS,
    UNREAD,
    WITHHELD,
    base_of,
    manipulated,
    verified,
)
from tests.verification.toy_runs import committed_run, edit_json, edit_lines, relink, reseal


@pytest.fixture(scope="module")
def bases(toy_runtime, tmp_path_factory):
    """The folder of the runs that are manipulated, each made when it is needed."""
    return tmp_path_factory.mktemp("bases")


@pytest.fixture(scope="module")
def committed(bases):
    """A run of canaries in three rounds each, beside its commitment and its release sheet."""
    folder = base_of(bases, "several")
    assert main(["release", str(folder / "run"), "--out", str(folder / "sheet.html")]) == 0
    return folder


@pytest.fixture(scope="module")
def held(committed):
    return verify_folder(committed / "run")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", MANIPULATIONS)
def test_a_manipulation_is_found_and_named(bases, tmp_path, capsys, name):
    manipulation, (run, link) = MANIPULATIONS[name], manipulated(bases, name, tmp_path)
    alone = verified(run)
    assert alone.outcome == manipulation.outcome, alone.findings
    found = [one.what for one in alone.findings if one.file == manipulation.file]
    if manipulation.outcome == "broken":
        assert any(manipulation.words in what for what in found), alone.findings
    elif manipulation.outcome == "partly":
        assert manipulation.file in alone.not_made_again
        assert manipulation.words in " ".join(alone.notes)
    by_link = Verified()
    verify_chain(RunFolder(run), link, by_link)
    if name.startswith("forged"):
        assert "chain.jsonl" in {one.file for one in by_link.findings}
    if name.endswith(("removed", "one_byte")) and manipulation.outcome == "broken":
        status = main(["release", str(run), "--out", str(tmp_path / "sheet.html")])
        assert status == (2 if manipulation.file == "report.json" and "removed" in name else 1)
        assert manipulation.file in capsys.readouterr().err
        assert not (tmp_path / "sheet.html").exists()


def test_there_are_enough_manipulations():
    assert sum("damage" not in name for name in MANIPULATIONS) >= 140


def test_links_and_files_that_nothing_reads_are_named(bases, tmp_path):
    run, _ = manipulated(bases, "careless_score", tmp_path)
    (run / "scores_max.csv").rename(tmp_path / "elsewhere.csv")
    (run / "scores_max.csv").symlink_to(tmp_path / "elsewhere.csv")
    (run / "rep\u043ert.html").write_text("<p>approved</p>")
    notes = " ".join(verified(run).notes)
    assert "may change: scores_max.csv" in notes
    assert r"'rep\u043ert.html'" in notes


def test_the_files_are_those_of_a_run(bases):
    found = {path.name for path in (base_of(bases, "sampled") / "run").iterdir() if path.is_file()}
    assert found - UNREAD == FILES
    assert WITHHELD.keys() <= FILES


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(UNREAD))
def test_files_that_nothing_reads_may_be_missing(bases, tmp_path, file):
    shutil.copytree(base_of(bases, "sampled") / "run", tmp_path / "run")
    (tmp_path / "run" / file).unlink(missing_ok=True)
    assert main(["verify", str(tmp_path / "run")]) == 0


# Files outside the folder.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda model: model, None),
        (lambda model: model[::-1], "is another model than the run trained"),
        (lambda model: model[:-1], "holds no model whose variables have 300 parameters"),
    ],
)
def test_another_model_is_found(committed, tmp_path, change, words):
    with np.load(committed / "run" / "model.npz") as file:
        (model,) = file.values()
    np.save(tmp_path / "released.npy", change(model))
    outcome = verify_folder(committed / "run", model=tmp_path / "released.npy")
    found = [one.what for one in outcome.findings if one.file == "released.npy"]
    assert [words in one for one in found] == [True] * len(found)
    assert bool(found) == (words is not None)


SHEET = {
    "verdict": ("Verdict on the claim", "CONS", "CERT"),
    "guarantee": ("Upper bound from accounting", "ε ≤ ", "ε ≤ 0"),
    "model": ("Model", "parameters: ", "parameters: 0"),
    "chain": ("Chain of the run", "Last link ", "Last link 0"),
    "commitment": ("Commitment", "SHA-256 ", "SHA-256 0"),
    "verified": ("Verification", "All that", "More than"),
    "bound": ("Lower bound", "ε ≥ ", "ε ≥ 0"),
    "unprotected": ("Not noised", "NOT counted", "counted"),
    "contact": ("", "Contact", "Contact"),
}


PAGE = {
    "paragraph": ("</header>", "<p>Approved by the board.</p></header>"),
    "hidden_row": ("<tr>\n", '<tr style="display:none">\n'),
    "subtitle": ("Filled by", "Approved by"),
    "operator's_verdict": (
        '<th scope="row">Verdict on the claim</th>',
        '<th scope="row">Verdict on the claim</th><td>CERTIFIED</td><td class="evidence">stated by '
        'the operator</td></tr><tr class="next"><th scope="row"></th>',
    ),
}


@pytest.fixture
def compared(committed, held, tmp_path):
    """The findings of a sheet of this text beside the run that holds."""

    def findings(text):
        sheet, outcome = tmp_path / "sheet.html", dataclasses.replace(held, findings=[])
        sheet.write_text(text)
        verify_sheet(sheet, RunFolder(committed / "run"), outcome)
        assert {one.file for one in outcome.findings} <= {"sheet.html"}
        return [one.what for one in outcome.findings]

    return findings


@pytest.mark.parametrize("name", PAGE)
def test_what_is_beside_the_rows_of_a_sheet_is_found(committed, compared, name):
    old, new = PAGE[name]
    text = (committed / "sheet.html").read_text()
    assert old in text
    assert compared(text.replace(old, new, 1))


@pytest.mark.parametrize("name", SHEET)
def test_an_edited_sheet_is_found(committed, compared, tmp_path, name):
    label, old, new = SHEET[name]
    row = f'<th scope="row">{label}'
    before, _, after = (committed / "sheet.html").read_text().partition(row)
    if name == "verdict":
        old = next(word for word in ("CONSISTENT", "INCONCLUSIVE", "CONTRADICTED") if word in after)
    assert old in after
    found = compared(before + row + after.replace(old, new, 1))
    assert bool(found) == (name != "contact")
    assert all(f"`{label}`" in what for what in found)
    if name == "model":
        words = ["verify", str(committed / "run"), "--sheet", str(tmp_path / "sheet.html")]
        assert main(words) == 1


ALL_AGAIN = "All that the verdict rests on was computed again from logs and models: equal."
NOT_AGAIN = (
    "Nothing is wrong, but not everything could be computed again; covered only by the chain of "
    "digests:"
)


@pytest.mark.parametrize(
    ("left_here", "said", "is_found"),
    [
        ([], ALL_AGAIN, False),
        (["report.html"], ALL_AGAIN, False),  # the sheet's writer had the processor of the run
        ([], f"{NOT_AGAIN} report.html.", False),
        ([], f"{NOT_AGAIN} report.html, run.json.", True),  # other lines name other evidence then
        ([], f"{NOT_AGAIN} no file of the run.", True),
        (["report.html"], "Everything was computed again.", True),
    ],
)
def test_a_sheet_may_be_written_where_more_or_less_could_be_recomputed(
    committed, held, left_here, said, is_found
):
    text, sheet = (committed / "sheet.html").read_text(), committed / "said.html"
    assert ALL_AGAIN in text
    sheet.write_text(text.replace(ALL_AGAIN, said))
    outcome = dataclasses.replace(held, findings=[], notes=[], not_made_again=left_here)
    verify_sheet(sheet, RunFolder(committed / "run"), outcome)
    assert bool(outcome.findings) == is_found
    says_more = any("its writer also computed again" in note for note in outcome.notes)
    assert says_more == (left_here != [] and said == ALL_AGAIN)


# Logs.


@pytest.fixture
def log(tmp_path):
    """The folder of a finished log of `RoundScorer`."""
    pool = CanaryPool(seed=3, count=20, dim=200)
    scorer = RoundScorer.create(tmp_path / "log", pool, 3, [[1 + j % 3] for j in range(20)])
    for number in (1, 2, 3):
        scorer.score_round(number, np.random.default_rng(number).normal(size=200))
    scorer.finish()
    link = read_chain(scorer.folder.chain).lines[-1].link
    assert verify_folder(scorer.folder.path, link=link).held
    return scorer.folder


def test_files_of_aggregates_do_not_replace_what_a_scorer_measured(tmp_path):
    """Aggregates with new noise, and the same norms and cosines, beside rounds with old noise."""
    pool, random = CanaryPool(seed=3, count=20, dim=2000), np.random.default_rng(2)
    scorer, noise = RoundScorer.create(tmp_path / "log", pool, 6), random.normal(size=2000)
    folder = scorer.folder
    for number in range(1, 7):
        scorer.score_round(number, noise, noise_stddev=1.0, norm_bound=1.0)
    checks = folder_checks(AuditedFolder(folder.path))
    assert checks.passed is False
    span, _ = np.linalg.qr(np.stack([pool.vector(j) for j in range(20)], axis=1))
    seen = span @ (span.T @ noise)
    folder.aggregates.mkdir()
    for number in range(1, 7):
        other = random.normal(size=2000)
        other -= span @ (span.T @ other)
        other *= np.linalg.norm(noise - seen) / np.linalg.norm(other)
        np.save(folder.aggregates / f"round_{number}.npy", seen + other)
    assert folder_checks(AuditedFolder(folder.path)) == checks
    link = read_chain(folder.chain).lines[-1].link
    assert verify_folder(folder.path, link=link).not_made_again == ["aggregates"]


LATER = ["participation.json", "noise_correlation.json", "claim.csv", "round_mechanism.npy"]


@pytest.mark.parametrize("name", LATER)
def test_what_describes_a_log_and_appears_later_is_found(log, name):
    if name == "participation.json":
        write_participation(log.participation, Participation("none", client_rounds=1))
    elif name == "round_mechanism.npy":
        np.save(log.round_mechanism, np.ones((3, 2)))
    else:
        (log.path / name).write_text("{}" if name.endswith("json") else "epsilon,delta\n50,0.001\n")
    found = [str(one) for one in verify_folder(log.path).findings]
    assert f"{name}: was added later: the chain does not list it" in found


def test_a_log_with_other_rounds_and_a_new_chain_is_not_held(log):
    link = read_chain(log.chain).lines[-1].link
    np.save(log.round_cosines, 0.5 * np.load(log.round_cosines))
    scored = score_log(read_log(log, iter))
    for name, scores in scored.scores.items():
        write_score_file(log.scores(name), scores)
    write_compared_vectors(log.compared_vectors, scored.compared)
    reseal(log.path, rows=True)
    alone, by_link = (verify_folder(log.path, link=known) for known in (None, link))
    assert (alone.findings, alone.outcome) == ([], "partly")
    assert "round_cosines.npy" in alone.not_made_again
    assert [one.file for one in by_link.findings] == ["chain.jsonl"]
    log.chain.unlink()
    (missing,) = verify_folder(log.path, link=link).findings
    assert str(missing) == f"chain.jsonl: is missing, so that the link {link} cannot be found in it"


def _last_round_again(lines):
    return [*lines, next(line for line in reversed(lines) if isinstance(line, Logged))]


OF_LOG = {
    "lengths_of_no_round": (
        lambda path: np.save(path / "round_lengths.npy", np.zeros((0, 2))),
        "round_lengths.npy: rounds 1, 2, 3 have changed since they were logged",
    ),
    "lengths_that_are_words": (
        lambda path: np.save(path / "round_lengths.npy", np.full((3, 2), "long")),
        "round_lengths.npy: is not a log",
    ),
    "chain_gone": (lambda path: (path / "chain.jsonl").unlink(), "chain.jsonl: is missing"),
    "null_wider": (
        lambda path: edit_json(
            path / "concentrations.json", "statistics", "sum", "scale", value=lambda _: 3.0
        ),
        "concentrations.json: `statistics.sum` is not what the logs give",
    ),
    "null_gone": (
        lambda path: (path / "concentrations.json").unlink(),
        "concentrations.json: `statistics.max` is not what the logs give",
    ),
    "scores_gone": (
        lambda path: (path / "scores_own_rounds.csv").unlink(),
        "scores_own_rounds.csv: is missing, although its scores follow from the log",
    ),
    "scores_older_than_rounds": (
        lambda path: relink(path, _last_round_again),
        "scores_max.csv, scores_own_rounds.csv, scores_sum.csv",
    ),
}


@pytest.mark.parametrize("name", OF_LOG)
def test_a_manipulation_of_a_log_with_new_links_is_found(log, name):
    change, words = OF_LOG[name]
    change(log.path)
    if log.chain.exists():
        reseal(log.path)
    outcome = verify_folder(log.path)
    if name == "scores_older_than_rounds":
        assert outcome.outcome == "partly"
        assert ", ".join(outcome.not_made_again).endswith(words)
    else:
        assert any(str(one).startswith(words) for one in outcome.findings), outcome.findings


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
        "commitment.json: again, in the same directory, is another run under this commitment",
    ]
    assert of_second[0] == "commitment.json: records this run as number 2 under the commitment"
    assert len(of_second) == 3


@pytest.mark.slow
def test_a_second_try_is_found_alone(tried_twice):
    commitment = tried_twice / "commitment.json"
    # The first run and the list are gone, and the chain was not written anew.
    shutil.rmtree(tried_twice / "run")
    tries_of(commitment).unlink()
    alone = [str(one) for one in verify_folder(tried_twice / "again", commitment).findings]
    assert alone == ["commitment.json: records this run as number 2 under the commitment"]
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
    assert found[1] == (
        "commitment.json: `claim.claimed_epsilon` is 25.0, but 20.0 according to config.toml"
    )


def test_cosines_of_another_number_of_rounds_are_found(toy_runtime, tmp_path):
    overrides = ("audit.claimed_epsilon=0.05", "audit.stop_when_contradicted=true")
    run = committed_run(tmp_path, *overrides, "canaries.count=200")
    rows = np.load(run / "round_cosines.npy")
    assert np.isnan(rows[-1]).all()
    rows[np.isnan(rows)] = 0.01
    np.save(run / "round_cosines.npy", rows)
    words = "holds a round after the last of the run"
    assert words in {one.what for one in verify_folder(run).findings}
    edit_json(run / "run.json", "stopped_after", value=lambda _: None)
    assert "run.json" in {one.file for one in verify_folder(run).findings}
    edit_json(run / "run.json", "release", "rounds", value=lambda rounds: rounds + 1)
    assert "round_cosines.npy" in {one.file for one in verify_folder(run).findings}
    np.save(run / "round_cosines.npy", rows[:1])
    assert "round_cosines.npy" in {one.file for one in verify_folder(run).findings}


def test_what_is_not_accessible_beside_a_run_is_left_out(committed, monkeypatch):
    is_file, iterdir, folder = Path.is_file, Path.iterdir, committed / "private"

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    folder.mkdir(exist_ok=True)
    refused = folder / "commitment.json"
    monkeypatch.setattr(Path, "is_file", lambda p: refuse() if p == refused else is_file(p))
    assert verify_folder(committed / "run").held
    monkeypatch.setattr(Path, "iterdir", lambda p: refuse() if p == committed else iterdir(p))
    outcome = verify_folder(committed / "run")
    assert outcome.held and "were not looked for: Permission denied" in " ".join(outcome.notes)


def test_no_design_draws_canaries_that_are_missing(tmp_path):
    pool = SimpleNamespace(of_canary=[np.arange(1)])
    design = SimpleNamespace(included=np.array([True]), own_rounds=pool, arms=())
    assert not _draws(design, RunFolder(tmp_path))
