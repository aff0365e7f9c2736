"""What a run reads beside its config: replaced data, files and modules are noticed."""

import numpy as np
import pytest

from fl_audit.cli import main
from fl_audit.config.commitment import check_committed_inputs, open_commitment
from fl_audit.config.file import load_config
from fl_audit.config.inputs import check_same_inputs, read_inputs, write_recorded_inputs
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
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
def inputs_of(tmp_path):
    """A function that reads the inputs of one config as they are now."""
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
