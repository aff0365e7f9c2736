"""A sampled schedule is drawn from a secret of the run, which stays in one file for its owner."""

import re
import stat

import numpy as np
import pytest

from fl_audit import load_config, start_run
from fl_audit.cli import main
from fl_audit.config.design import design_run
from fl_audit.engines.runtimes import RUNTIMES
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.schedule_secret import new_secret, read_secret, write_secret
from fl_audit.run.training_folder import check_same_canaries, secret_of, write_identity
from fl_audit.tasks.kinds import TASKS
from fl_audit.verification import verify_folder
from tests.engines import toy_engine
from tests.verification.toy_runs import CONFIG

CLIENTS = [f"client-{at}" for at in range(60)]
SAMPLED = {
    "bernoulli": "",
    "uniform": "",
    "cyclic_poisson": "separation = 2",
    "balls_in_bins": "",
    "random_allocation": "",
    "b_min_sep": "separation = 2",
}


@pytest.fixture(scope="module", autouse=True)
def _toy_runtime():
    toy_engine.register()
    yield
    RUNTIMES.remove("toy")
    TASKS.remove("vectors")


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


def test_a_config_may_name_the_secret(tmp_path):
    write_secret(tmp_path / "kept", 5)
    config = config_of(tmp_path, "shuffle", top='schedule_secret = "kept"\n')
    secret = secret_of(RunFolder(tmp_path / "run"), config)
    assert secret == 5
    assert rounds_of(config, secret)[0].secret_from == "config"


@pytest.mark.parametrize("text", ["", "12", "g" * 64, "0" * 63 + "\n1"])
def test_a_file_without_a_secret_is_refused_and_not_printed(tmp_path, text):
    (tmp_path / "kept").write_text(text)
    with pytest.raises(InputError, match=r"kept: holds no secret.*64 hexadecimal") as refused:
        read_secret(tmp_path / "kept")
    assert not text or text not in str(refused.value)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_run_keeps_its_secret_to_one_file(tmp_path):
    config = config_of(tmp_path)
    folder = RunFolder(tmp_path / "run")
    start_run(config, folder.path)
    secret = read_secret(folder.schedule_secret)
    for path in (folder.schedule_secret, folder.canaries, folder.checkpoint):
        assert mode(path) == 0o600, path
    sheet = tmp_path / "run" / "sheet.html"
    assert main(["release", str(folder.path), "--out", str(sheet)]) == 0
    assert "Rounds are drawn from a secret of this run" in sheet.read_text()
    words = [f"{secret:064x}".encode(), str(secret).encode()]
    rows = [row.split(",")[2] for row in folder.canaries.read_text().splitlines()[1:]]
    words += [row.encode() for row in rows if row.count(" ") > 3]
    for path in folder.path.rglob("*"):
        if path.is_file() and mode(path) & 0o077:
            found = [word for word in words if word in path.read_bytes()]
            assert not found, (path.name, found)
    # Whoever has config and seed alone makes other rounds of it.
    assert [" ".join(map(str, r + 1)) for r in rounds_of(config)[0].own_rounds.of_canary] != rows
    assert verify_folder(folder.path).held
    kept = folder.schedule_secret.rename(tmp_path / "kept")
    verified = verify_folder(folder.path)
    assert verified.held
    assert any("schedule_secret, which is not in the folder" in note for note in verified.notes)
    kept.rename(folder.schedule_secret)
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
