"""What a run reads beside its config: replaced data, files and modules are noticed."""

import os
import signal
import sys

import numpy as np
import pytest

from fl_audit import load_config, start_run
from fl_audit.cli import main
from fl_audit.config.commitment import check_committed_inputs, open_commitment
from fl_audit.config.inputs import check_same_inputs, read_inputs, write_recorded_inputs
from fl_audit.errors import InputError, Interrupted
from fl_audit.formats.folders import RunFolder
from fl_audit.run.observers import RoundObserver
from fl_audit.tasks import load_task

CONFIG = """
seed = 123456789012345
plugins = ["my_kinds"]
[task]
kind = "npz"
path = "clients"
[mechanism]
kind = "matrix_factorisation"
noise_multiplier = 0.3
clip_norm = 1.0
strategy = "file"
coefficients = "c.npy"
[participation]
kind = "shuffle"
rounds = 4
clients_per_round = 4
[canaries]
count = 30
"""


def _write_clients(folder, scale=1.0, count=20):
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(0)
    for client in range(count):
        labels = random.integers(0, 3, 10)
        inputs = scale * random.normal(size=(10, 5)) + labels[:, None]
        np.savez(folder / f"client_{client}.npz", inputs=inputs, labels=labels)


@pytest.fixture
def inputs_of(tmp_path, monkeypatch):
    """A function that reads the inputs of one config as they are now."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # of a plugin's folder no trace remains
    _write_clients(tmp_path / "clients")
    np.save(tmp_path / "c.npy", np.array([1.0, 0.5, 0.375, 0.3125]))
    (tmp_path / "my_kinds.py").write_text("NUMBER = 1\n")
    (tmp_path / "config.toml").write_text(CONFIG)

    def read():
        config = load_config(tmp_path / "config.toml")
        return read_inputs(config, load_task(config.task, config.seed))

    return read


def _scaled(folder):
    _write_clients(folder / "clients", scale=3.0)


def _more_clients(folder):
    _write_clients(folder / "clients", count=21)


def _coefficients(folder):
    np.save(folder / "c.npy", np.array([1.0, 0.0, 0.0, 0.0]))


def _code(folder):
    (folder / "my_kinds.py").write_text("NUMBER = 2\n")


CHANGES = [
    (_scaled, "the clients' data have changed"),
    (_more_clients, "the number of clients has changed"),
    (_coefficients, "the file `mechanism.coefficients` has changed"),
    (_code, "the module `my_kinds` has changed"),
]


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_no_run_goes_on_with_other_inputs(inputs_of, tmp_path, change, words):
    (tmp_path / "run").mkdir()
    folder = RunFolder(tmp_path / "run")
    write_recorded_inputs(folder, inputs_of())
    check_same_inputs(folder, inputs_of())
    change(tmp_path)
    with pytest.raises(InputError, match=words):
        check_same_inputs(folder, inputs_of())


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_no_run_begins_with_other_inputs_than_were_committed_to(inputs_of, tmp_path, change, words):
    committed, config = tmp_path / "commitment.json", str(tmp_path / "config.toml")
    before = inputs_of()
    assert main(["commit", config, "--out", str(committed)]) == 0
    check_committed_inputs(committed, open_commitment(committed), before)
    change(tmp_path)
    with pytest.raises(InputError, match=f"{words} since the commitment"):
        check_committed_inputs(committed, open_commitment(committed), inputs_of())
    assert (
        main(["run", config, "--out", str(tmp_path / "run"), "--commitment", str(committed)]) == 2
    )
    assert not (tmp_path / "run").exists()


class _Stop(RoundObserver):
    """Asks the run to stop after its second round, as a cluster's scheduler does."""

    def round_finished(self, finished):
        if finished.metrics.round == 2:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("change", [None, _scaled, _coefficients])
def test_a_stopped_run_whose_inputs_were_replaced_is_not_resumed(tmp_path, capsys, change):
    _write_clients(tmp_path / "clients")
    np.save(tmp_path / "c.npy", np.array([1.0, 0.5, 0.375, 0.3125]))
    text = CONFIG.replace('plugins = ["my_kinds"]', 'runtime = "jax"')
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(Interrupted):
        start_run(load_config(tmp_path / "config.toml"), tmp_path / "run", [_Stop()])
    if change is not None:
        change(tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "run").glob("*.*")}
    status = main(
        ["run", str(tmp_path / "config.toml"), "--out", str(tmp_path / "run"), "--resume"]
    )
    error = capsys.readouterr().err.splitlines()[-1]
    if change is None:
        assert status == 0
    else:
        assert (status, "changed since the run began" in error) == (2, True), error
        assert {path: path.read_bytes() for path in (tmp_path / "run").glob("*.*")} == before


def test_a_plugin_on_pythons_path_is_not_looked_up_in_the_current_folder(
    inputs_of, tmp_path, monkeypatch
):
    for folder, text in (("path", "NUMBER = 1\n"), ("here", "NUMBER = 2\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kinds_on_the_path.py").write_text(text)
    (tmp_path / "config.toml").write_text(CONFIG.replace("my_kinds", "kinds_on_the_path"))
    monkeypatch.syspath_prepend(tmp_path / "path")
    code = inputs_of().code
    assert set(code) == {"kinds_on_the_path"}
    monkeypatch.chdir(tmp_path / "here")
    assert inputs_of().code == code
