"""Models and data of one's own, run as docs/own_task.md and docs/own_data.md have them."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fl_audit.cli import main
from fl_audit.config.file import load_config
from fl_audit.engines.prepare import prepare
from fl_audit.formats.score_file import read_score_file
from tests.tests_of_docs import ROOT, blocks

pytestmark = pytest.mark.tff


def of_page(page: str, language: str) -> list[str]:
    return blocks((ROOT / "docs" / page).read_text(), language)


def finished(folder: Path, out: str, *overrides: str, capsys) -> dict:
    sets = [part for override in overrides for part in ("--set", override)]
    assert main(["run", str(folder / "config.toml"), "--out", str(folder / out), *sets]) == 0
    capsys.readouterr()
    return json.loads((folder / out / "report.json").read_text())


@pytest.fixture
def own_task(tmp_path) -> Path:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "my_task.py").write_text(of_page("own_task.md", "python")[0])
    (folder / "config.toml").write_text(of_page("own_task.md", "toml")[0])
    return folder


SILENT = "mechanism.noise_multiplier=0.0"


@pytest.mark.slow
def test_the_task_of_the_docs_gives_one_model_however_it_is_run(own_task, capsys):
    ways = {
        "blocks": ("runtime=local", "clients_per_block=4"),
        "one": ("runtime=local", "clients_per_block=1"),
        "native": ("runtime=native",),
    }
    for out, sets in ways.items():
        finished(own_task, out, SILENT, *sets, capsys=capsys)
    scores = [read_score_file(own_task / out / "scores_max.csv").score for out in ways]
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], atol=2e-4)


@pytest.mark.slow
def test_the_task_of_the_docs_is_run_and_its_folder_read(own_task, capsys, monkeypatch):
    monkeypatch.chdir(own_task.parent)
    report = finished(own_task, "run", SILENT, capsys=capsys)
    assert (report["run"]["task"], report["run"]["num_clients"]) == ("temperatures", 60)
    assert report["run"]["dim"] == 17
    assert "to half a degree" in report["run"]["accuracy_description"]

    # The run's own config can be run again, from anywhere; reading its folder executes nothing.
    again = tomllib.loads((own_task / "run" / "config.toml").read_text())
    assert again["task"]["folder"] == str(own_task)
    rerun = finished(own_task / "run", "again", capsys=capsys)
    assert rerun["accuracy"] == report["accuracy"]
    (own_task / "my_task.py").write_text("raise SystemExit('executed')")
    runs = [str(own_task / "run"), str(own_task / "run" / "again")]
    assert main(["estimate", runs[0], "--delta=1e-3", f"--out={own_task / 'page.html'}"]) == 0
    assert main(["compare", *runs]) == 0


def _own_data(kind: str, folder: Path) -> Path:
    """The config of the docs for data of one's own, beside 30 clients' data."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 300)
    inputs = random.normal(size=(300, 4)) + 3 * np.eye(4)[labels]
    clients = np.repeat(np.arange(30), 10)
    table, npz = of_page("own_data.md", "toml")
    text = table
    if kind == "table":
        rows = [
            f"c{client},{label},{','.join(map(str, values))}"
            for client, label, values in zip(clients, labels, inputs.tolist(), strict=True)
        ]
        (folder / "examples.csv").write_text("\n".join(["client_id,label,a,b,c,d", *rows]))
    else:
        text = table[: table.index("[task]")] + npz + table[table.index("\n[mechanism]") :]
        (folder / "clients").mkdir()
        for client in range(30):
            own = clients == client
            np.savez(
                folder / "clients" / f"c{client}.npz",
                inputs=inputs[own].reshape(-1, 2, 2),
                labels=labels[own],
            )
    (folder / "config.toml").write_text(text)
    return folder / "config.toml"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["table", "npz"])
def test_data_of_the_docs_is_prepared(kind, tmp_path):
    task = prepare(load_config(_own_data(kind, tmp_path))).task
    assert len(task.population.client_ids) == 30
    assert task.classifier.dim == 4 * 32 + 32 + 32 * 3 + 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["table", "npz"])
def test_data_of_the_docs_is_run(kind, tmp_path, capsys):
    _own_data(kind, tmp_path)
    report = finished(tmp_path, "run", capsys=capsys)
    assert report["run"]["dim"] == 4 * 32 + 32 + 32 * 3 + 3
    assert report["run"]["num_clients"] == 30
    assert report["run"]["accuracy_description"].startswith("share of 30 held-out examples")
    assert report["accuracy"] > 0.6
    assert set(report["statistics"]) >= {"final", "max"}
