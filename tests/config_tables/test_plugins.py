"""Plugins: what a config's modules register, and that readers of a folder import none of them."""

import json
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

from fl_audit.cli import main
from fl_audit.config.file import config_to_toml, load_config, load_recorded, recorded_config
from fl_audit.config_tables.kinds import RecordedTable
from fl_audit.errors import InputError
from fl_audit.formats.text_files import parse_toml
from tests.config_tables.plugins_page import of_page, write_page
from tests.engines.toy_engine import MeanOfVectors

pytestmark = pytest.mark.usefixtures("as_in_a_new_process")


@pytest.fixture
def path(tmp_path) -> Path:
    return write_page(tmp_path)


def test_the_config_of_the_page_is_read_and_written(path):
    config = load_config(path)
    assert config.plugins == (f"{path.parent}/my_kinds",)
    assert (config.participation.first, config.mechanism.noise_multiplier) == ("odd", 0.5)
    again = path.parent / "again" / "config.toml"
    again.parent.mkdir()
    again.write_text(config_to_toml(config))
    assert load_config(again) == config


def test_a_module_may_stand_in_another_folder(path):
    other = path.parent / "elsewhere" / "config.toml"
    other.parent.mkdir()
    other.write_text(of_page("toml").replace('"my_kinds"', '"../my_kinds"'))
    assert load_config(other).plugins == (f"{path.parent}/my_kinds",)


TAKEN = """
from fl_audit.mechanisms import MECHANISMS
MECHANISMS.register(MECHANISMS["none"])
"""


@pytest.mark.parametrize(
    "wrong",
    [
        (
            '["my_knids"]',
            "",
            r"key `plugins`: there is no module 'my_knids' next to the config or on Python",
        ),
        ('["no/my_kinds"]', "", r"key `plugins`: there is no module 'my_kinds' in .*/no$"),
        (
            '["my_kinds"]',
            "import no_such_module",
            r"my_kinds' fails in my_kinds\.py, line 1: ModuleNotFoundError: No module named 'no_s",
        ),
        (
            '["my_kinds"]',
            "1 / 0",
            r"key `plugins`: '.*/my_kinds' fails in my_kinds\.py, line 1: ZeroDivisionError: div",
        ),
        (
            '["my_kinds"]',
            TAKEN,
            r"in my_kinds\.py, line 3: ValueError: a mechanism 'none' is registered already$",
        ),
        ('"my_kinds"', "", r"key `plugins`: must be a list, got "),
        ("[1]", "", r"key `plugins\[0\]`: must be text, got "),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_what_is_wrong_with_a_plugin_is_one_line(path, capsys, command, wrong):
    plugins, module, message = wrong
    (path.parent / "my_kinds.py").write_text(module)
    toml = re.sub(r'"odd_and_even"\n(.*)\nfirst = "odd"', r'"every_round"\n\1', of_page("toml"))
    toml = toml.replace('"whisper"', '"none"\ncanary_norm = 1.0').replace(', "first_round"', "")
    path.write_text(toml.replace('["my_kinds"]', plugins))
    out = ["--out", str(path.parent / "out")] if command == "run" else []
    assert main([command, str(path), *out]) == 2
    err = capsys.readouterr().err
    assert re.search(message, err.strip())
    assert err.count("\n") == 1
    assert not (path.parent / "out").exists()


def test_a_recorded_config_holds_what_was_written(path):
    (path.parent / "my_kinds.py").unlink()
    config = load_recorded(path)
    assert isinstance(config.participation, RecordedTable)
    assert (config.participation.rounds, config.participation.first) == (12, "odd")
    assert config.audit.threat_models == ("final", "first_round")
    assert parse_toml(config_to_toml(config), "again")["participation"]["kind"] == "odd_and_even"
    assert "my_kinds" not in sys.modules


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ('{"kind": "odd", "path_keys": ["x"]}', r"section \[participation\]: unknown key 'path_ke"),
        ('{"kind": "odd", "refused_keys": {}}', r"section \[participation\]: unknown key 'refused"),
        ('{"kind": "odd", "__init__": 1}', r"section \[participation\]: unknown key '__init__'"),
        ('{"kind": "odd", "a b": 1}', r"section \[participation\]: unknown key 'a b'"),
        ('{"kind": ["odd"]}', r"section \[participation\]: has no kind"),
        ("{}", r"section \[participation\]: has no kind"),
        ("3", r"key `participation`: must be a table, got 3"),
    ],
)
def test_a_hostile_record_is_refused_in_one_line(kind, message):
    table = parse_toml(of_page("toml"), "config")
    with pytest.raises(InputError, match=message):
        recorded_config({**table, "participation": json.loads(kind)}, "report.json")


@pytest.fixture
def toy_path(path) -> Path:
    """The config of the page with an engine from a plugin too, which needs no TensorFlow."""
    (path.parent / "my_engine.py").write_text(TOY_ENGINE)
    text = of_page("toml").replace('["my_kinds"]', '["my_kinds", "my_engine"]\nruntime = "toy"')
    path.write_text(text.replace('"digits"', '"vectors"') + "checkpoint_every = 5\n")
    return path


def test_the_page_is_planned_and_run_and_its_folder_read_without_the_plugin(
    toy_path, capsys, monkeypatch, as_in_a_new_process
):
    monkeypatch.chdir(toy_path.parent)
    few = ["--set", "participation.rounds=4"]
    assert main(["plan", "config.toml", "--trials", "3", "--json", *few]) == 0
    assert "proven" in capsys.readouterr().out
    assert main(["run", "config.toml", "--out", "runs/one", *few]) == 0
    sentence = "First round (the attacker has the noisy aggregate of the first round):"
    printed = capsys.readouterr().out
    assert sentence in " ".join(printed.split())
    report = json.loads(Path("runs/one/report.json").read_text())
    assert {name: made["knows"] for name, made in report["statistics"].items()} == {
        "final": 1,
        "first": 3,
    }
    assert "Every other round, odd clients first." in Path("runs/one/report.html").read_text()

    # Whoever reads the folder has neither the module nor what it registers.
    Path("my_kinds.py").unlink()
    as_in_a_new_process()
    assert main(["show", "runs/one"]) == 0
    assert capsys.readouterr().out.splitlines()[:5] == printed.splitlines()[:5]
    assert main(["estimate", "runs/one", "--delta", "1e-3", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["statistics"]) == {"final", "first"}
    shutil.copytree("runs/one", "runs/two")
    assert main(["compare", "runs/one", "runs/two", "--json"]) == 0
    assert "my_kinds" not in sys.modules


TOY_ENGINE = """
from tests.engines import toy_engine
toy_engine.register()
"""


def test_an_interrupted_run_of_plugins_goes_on_in_a_new_process(
    toy_path, capsys, monkeypatch, as_in_a_new_process
):
    folder, train = toy_path.parent, MeanOfVectors.run_round
    command = ["run", str(toy_path), "--out", str(folder / "run")]
    assert main([*command[:-1], str(folder / "whole")]) == 0

    def interrupted(engine, state, data, index):
        if index == 7:
            signal.raise_signal(signal.SIGINT)
        return train(engine, state, data, index)

    as_in_a_new_process()
    with monkeypatch.context() as patch:
        patch.setattr(MeanOfVectors, "run_round", interrupted)
        assert main(command) == 128 + signal.SIGINT

    as_in_a_new_process()
    (folder / "my_kinds.py").rename(folder / "away.py")
    capsys.readouterr()
    assert main([*command, "--resume"]) == 2
    assert "there is no module 'my_kinds'" in capsys.readouterr().err
    (folder / "away.py").rename(folder / "my_kinds.py")
    assert main([*command, "--resume"]) == 0
    scores = sorted((folder / "whole").glob("scores_*.csv"))
    assert [score.name for score in scores] == ["scores_final.csv", "scores_first.csv"]
    for score in scores:
        assert (folder / "run" / score.name).read_bytes() == score.read_bytes()
