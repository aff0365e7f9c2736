"""A sampled schedule is drawn from a secret of the run, which stays in one file for its owner."""

import itertools
import re
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fl_audit import load_config, start_run
from fl_audit.attacks.own_sums import KeptSums
from fl_audit.canaries.families import FAMILIES
from fl_audit.checks.noise_rows import sketch
from fl_audit.cli import main
from fl_audit.config.design import design_run
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.participation_files import (
    new_secret,
    read_canaries,
    read_secret,
    write_secret,
)
from fl_audit.formats.round_chain import digest_of
from fl_audit.formats.score_file import read_score_file
from fl_audit.report.build import build_report
from fl_audit.report.finished_run import assembled_run, read_finished_run, read_scores_of
from fl_audit.report.page import page_of_run
from fl_audit.report.report import report_to_json
from fl_audit.run.folder_and_checkpoints import check_same_canaries, secret_of, write_identity
from fl_audit.verification import verify_folder
from tests.verification.toy_runs import CONFIG

pytestmark = pytest.mark.usefixtures("toy_runtime")

CLIENTS = [f"client-{at}" for at in range(60)]
SAMPLED = {
    "bernoulli": "",
    "uniform": "",
    "cyclic_poisson": "separation = 2",
    "balls_in_bins": "",
    "random_allocation": "",
    "b_min_sep": "separation = 2",
}


def config_of(folder, pattern="bernoulli", extra="", noise=0.5, top=""):
    text = top + CONFIG.replace("noise_multiplier = 0.5", f"noise_multiplier = {noise}")
    text = text.replace('kind = "shuffle"', f'kind = "{pattern}"\n{extra}')
    path = folder / "config.toml"
    path.write_text(text)
    return load_config(path)


def rounds_of(config, secret=None):
    design = design_run(config, CLIENTS, 30, secret)
    cohorts = [design.schedule.cohort(at) for at in range(design.num_rounds)]
    return design, [(c.clients.tolist(), c.canaries.tolist()) for c in cohorts]


@pytest.mark.parametrize(("pattern", "extra"), SAMPLED.items())
def test_who_is_in_which_round_follows_from_the_secret(tmp_path, pattern, extra):
    config = config_of(tmp_path, pattern, extra)
    by_seed = rounds_of(config)[1]
    design, one = rounds_of(config, 1 << 200)
    assert design.secret_from == "run"
    assert rounds_of(config, 1 << 200)[1] == one
    # A secret that differs in one of its last bits, and none, give other clients and canaries.
    for other in (by_seed, rounds_of(config, (1 << 200) + 1)[1]):
        for at in (0, 1):
            assert [party[at] for party in other] != [party[at] for party in one]
    np.testing.assert_array_equal(design.included, rounds_of(config)[0].included)


@pytest.mark.parametrize(("pattern", "noise"), [("shuffle", 0.5), ("bernoulli", 0.0)])
def test_the_seed_draws_where_no_bound_counts_on_sampling(tmp_path, pattern, noise):
    config = config_of(tmp_path, pattern, noise=noise)
    design, rounds = rounds_of(config, new_secret())
    assert design.secret is None
    assert rounds == rounds_of(config)[1]


@pytest.mark.parametrize("text", ["", "12", "g" * 64, "0" * 63 + "\n1"])
def test_a_file_without_a_secret_is_refused_and_not_printed(tmp_path, text):
    (tmp_path / "kept").write_text(text)
    with pytest.raises(InputError, match=r"kept: holds no secret.*64 hexadecimal") as refused:
        read_secret(tmp_path / "kept")
    said = str(refused.value).replace(str(tmp_path), "")  # pytest counts its folders
    assert not text or text not in said


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_run_keeps_its_secret_to_one_file(tmp_path):
    config = config_of(tmp_path)
    folder = RunFolder(tmp_path / "run")
    start_run(config, folder.path)
    secret = read_secret(folder.schedule_secret)
    for path in (folder.schedule_secret, folder.canaries, folder.checkpoint, folder.metrics):
        assert mode(path) == 0o600, path
    sheet = tmp_path / "run" / "sheet.html"
    assert main(["release", str(folder.path), "--out", str(sheet)]) == 0
    assert "Rounds are drawn from a secret of this run" in sheet.read_text()
    words = [f"{secret:064x}".encode(), str(secret).encode()]
    rows = [row.split(",")[2] for row in folder.canaries.read_text().splitlines()[1:]]
    words += [row.encode() for row in rows if row.count(" ") > 3]
    # Whoever knows all but one canary's rounds could try these against a digest.
    of_rounds = (folder.canaries, folder.scores("own_rounds"))
    words += [digest_of(path).encode() for path in of_rounds if path.exists()]
    for path in folder.path.rglob("*"):
        if path.is_file() and mode(path) & 0o077:
            found = [word for word in words if word in path.read_bytes()]
            assert not found, (path.name, found)
    # Whoever has config and seed alone makes other rounds of it.
    assert [" ".join(map(str, r + 1)) for r in rounds_of(config)[0].own_rounds.of_canary] != rows
    assert verify_folder(folder.path).held
    write_secret(folder.schedule_secret, secret ^ 1)
    found = {finding.file for finding in verify_folder(folder.path).findings}
    assert found >= {"schedule_secret", "canaries.csv"}


def test_a_resumed_run_has_its_secret_and_one_that_lost_it_is_refused(tmp_path):
    config, folder = config_of(tmp_path), RunFolder(tmp_path / "run")
    folder.path.mkdir()
    secret = secret_of(folder, config)
    write_identity(folder, config, "canaries\n", secret)
    assert secret_of(folder, config) == secret
    check_same_canaries(folder, "canaries\n", secret)
    folder.schedule_secret.unlink()
    with pytest.raises(InputError, match=r"schedule_secret: is missing"):
        check_same_canaries(folder, "canaries\n", secret)
    assert re.fullmatch(r"[0-9a-f]{64}", f"{secret_of(folder, config):064x}")


# What the files that others may read say of rounds.


MODELS = ["final", "final_and_initial", "all_iterates", "checkpoints", "known_rounds"]


@pytest.fixture(scope="module")
def told(toy_runtime, tmp_path_factory):
    """The folder of a run with little noise, and its canaries' rounds, bool (rounds, canaries)."""
    path = tmp_path_factory.mktemp("told")
    text = CONFIG.replace('"final", "all_iterates", "known_rounds"', str(MODELS)[1:-1])
    text = text.replace("[audit]", "[audit]\nrelease_every = 1")
    text = text.replace("noise_multiplier = 0.5", "noise_multiplier = 0.05")
    write_secret(path / "kept", 7)  # the test is the same each time
    text = 'schedule_secret = "kept"\n' + text.replace('"shuffle"', '"bernoulli"')
    (path / "config.toml").write_text(text)
    folder = RunFolder(path / "run")
    start_run(load_config(path / "config.toml"), folder.path)
    own = [row.rounds for row in read_canaries(folder.canaries).values()]
    is_in = np.zeros((8, len(own)), bool)
    for canary, rounds in enumerate(own):
        is_in[rounds, canary] = True
    return folder, is_in


def arrays_of(path):
    if path.suffix == ".npy":
        return [np.load(path)]
    if path.suffix == ".npz":
        with np.load(path) as file:
            return [array for array in file.values() if array.dtype.kind == "f"]
    return []


def share_of_pairs(numbers, is_in):
    """How often a number in a round of the canary's own exceeds one in another; NaN lowest."""
    numbers = np.where(np.isfinite(numbers), numbers, -np.inf)
    own, other = numbers[is_in][:, None], numbers[~is_in][None]
    return float(np.mean((own > other) + (own == other) / 2))


def best_guess(path, is_in, included, vectors):
    """The share of pairs by what a file says of rounds: numbers, vectors or their sketches."""
    shares = [0.5]
    for array in arrays_of(path):
        sketches = np.array([sketch(vector) for vector in vectors])
        if array.ndim != 2 or len(array) != len(is_in):
            continue
        by_canary = [array] if array.shape == is_in.shape else []
        for against in (vectors, sketches):
            if array.shape[1] >= against.shape[1]:
                by_canary.append(array[:, -against.shape[1] :] @ against.T)
        for rows in by_canary:
            shares.append(share_of_pairs(rows[:, included], is_in[:, included]))
            shares.append(share_of_pairs(1.0 * np.isfinite(rows), is_in))
    return max(shares)


def rounds_by_scores(folder, path):
    """The rounds of each canary by its score, for an attacker who sees all aggregates.

    Of all sets of rounds, it takes the one whose sum of directions has this score.
    """
    cosines, kept = np.load(folder.round_cosines), KeptSums.read(folder.kept_directions)
    sets = np.array(list(itertools.product([0, 1], repeat=8)), bool)[1:]
    lengths = np.sqrt(np.einsum("st,tu,su->s", 1.0 * sets, kept.products, 1.0 * sets))
    by_set = sets @ cosines.astype(float) / lengths[:, None]
    error = np.abs(by_set - read_score_file(path).score)
    return sets[error.argmin(axis=0)].T, error.min(axis=0) < 1e-6


def test_no_file_that_others_may_read_says_who_was_in_which_round(told):
    folder, is_in = told
    included = np.array([row.included for row in read_canaries(folder.canaries).values()])
    vectors = FAMILIES["rademacher"](1, 30, 400)
    vectors = np.stack([vectors.vector(canary) for canary in range(30)])
    guesses, found = {}, {}
    for path in filter(Path.is_file, folder.path.rglob("*")):
        is_readable = bool(mode(path) & 0o077)
        guesses[path.name] = is_readable, best_guess(path, is_in, included, vectors)
        if path.match("scores_*.csv"):
            sets, fits = rounds_by_scores(folder, path)
            # Of excluded canaries the aggregates themselves say nothing.
            right = fits & (sets == is_in).all(axis=0) & is_in.any(axis=0) & ~included
            found[path.name] = is_readable, int(right.sum())
    # The attacks work: the files that only the owner reads say it.
    assert guesses["round_cosines.npy"][1] > 0.9
    assert guesses["release_cosines.npy"][1] > 0.9
    assert guesses["round_noise.npy"][1] > 0.9
    assert found["scores_own_rounds.csv"] == (False, (is_in.any(axis=0) & ~included).sum())
    readable = {name: share for name, (is_readable, share) in guesses.items() if is_readable}
    assert set(readable.values()) == {0.5}, readable
    chance = {name: count for name, (is_readable, count) in found.items() if is_readable}
    assert max(chance.values()) <= 2, chance  # a maximum that happens to be in the own round


def test_trackers_are_given_only_what_follows_from_what_is_released(told):
    folder, _ = told
    board = EventAccumulator(str(folder.tensorboard), {"tensors": 0}).Reload()
    released = {"clip_norm", "noise_stddev", "aggregate_norm", "accuracy"}
    assert {name for name in board.Tags()["tensors"] if "hparams" not in name} == released


def test_the_report_shows_scores_by_own_rounds_on_a_grid_and_no_loss(told):
    folder, _ = told
    run = read_finished_run(folder)
    exact = read_scores_of(folder.scores("own_rounds"), read_canaries(folder.canaries)).score
    on_grid = run.scores["own_rounds"].score
    step = np.diff(np.unique(on_grid)).min()
    assert np.all((on_grid <= exact) & (exact < on_grid + step))
    error = exact.std() / len(exact) ** 0.5
    assert error / 4 <= step <= error
    # Whatever the scores are within a step, and the losses, every number and picture is the same.
    within = on_grid + step * np.random.default_rng(1).uniform(0.01, 0.99, len(exact))
    other = assembled_run(
        folder,
        config=run.config,
        record=run.record,
        pool=read_canaries(folder.canaries),
        scores={**run.scores, "own_rounds": replace(run.scores["own_rounds"], score=within)},
        compared=run.compared,
    )
    other = replace(other, rounds=replace(other.rounds, train_loss=other.rounds.train_loss + 0.01))
    assert np.array_equal(other.scores["own_rounds"].score, on_grid)
    reports = [build_report(one) for one in (run, other)]
    assert report_to_json(reports[0]) == report_to_json(reports[1])
    assert page_of_run(reports[0], run) == page_of_run(reports[1], other)
    assert "Training loss" not in page_of_run(reports[0], run)


@pytest.mark.parametrize("is_secret", [True, False])
def test_the_canary_check_and_the_live_p_value_tell_no_digits_of_secret_rounds(tmp_path, is_secret):
    """From the digits, one who knows all but one canary's rounds could find these too."""
    write_secret(tmp_path / "kept", 7)
    top = f'schedule_secret = "{tmp_path / "kept"}"\n' if is_secret else ""
    text = top + CONFIG.replace("claimed_epsilon = 20.0", "claimed_epsilon = 0.2")
    (tmp_path / "config.toml").write_text(text)
    folder = RunFolder(tmp_path / "run")
    check = start_run(load_config(tmp_path / "config.toml"), folder.path).canary_check
    steps = np.array([check.ratio, check.signal]) * 32  # the standard error is above 1/8
    assert (steps % 1 == 0).tolist() == [is_secret] * 2
    assert f" {check.ratio:.3g} ± " in check.reason
    p_value = read_finished_run(folder).record.live.claim_p_value
    assert (p_value == float(f"{p_value:.0e}")) == is_secret
    assert 0 < p_value < 1
    assert verify_folder(folder.path).held
