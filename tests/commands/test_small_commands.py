"""Version, help, init, show, completion: what any command line has."""

import re
import subprocess
import sys
import tomllib
import webbrowser
from pathlib import Path

import pytest

import fl_audit
from fl_audit.cli import main
from fl_audit.config.file import load_config, parse_config
from fl_audit.config.starting_point import starting_config
from fl_audit.extras import EXTRA_OF
from fl_audit.tasks.task_kinds import TASKS


def test_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"fl-audit {fl_audit.__version__}\n"
    assert fl_audit.__version__.count(".") == 2


def test_python_m_is_the_command():
    shown = subprocess.run(
        [sys.executable, "-m", "fl_audit", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("fl-audit ")


def test_init_writes_a_config_that_runs(tmp_path, capsys):
    path = tmp_path / "config.toml"
    assert main(["init", "digits", "--out", str(path)]) == 0
    config = load_config(path)
    assert config.mechanism.noise_multiplier == 0.3
    assert main(["init", "digits", "--out", str(path)]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize("task", [str(t.__struct_config__.tag) for t in TASKS.tables])
def test_every_task_has_a_starting_point_where_all_keys_are_known(task):
    text = starting_config(task).replace('module = "FILL IN"', 'module = "my_task:make"')
    parse_config(tomllib.loads(text), "config.toml")
    assert "\n# [ray]\n" in text  # which is refused beside another runtime
    # What is commented out is a default: the config says the same with it as without.
    spelled_out = "\n".join(
        line.removeprefix("# ") if " = " in line and "…" not in line and "`" not in line else line
        for line in text.partition("\n# [")[0].splitlines()  # optional tables come last
    )
    assert parse_config(tomllib.loads(spelled_out), "config.toml") == parse_config(
        tomllib.loads(text), "config.toml"
    )


@pytest.mark.parametrize("task", ["stackoverflow", "numbers", "emnist", "text", "npz"])
def test_large_tasks_start_with_many_canaries_and_the_delta_of_their_clients(task):
    config = parse_config(tomllib.loads(starting_config(task)), "config.toml")
    assert (config.canaries.count, config.canaries.family) >= (1000, "hadamard")
    assert config.audit.delta is None


def test_show_of_a_folder_without_a_run_is_one_line(capsys, tmp_path):
    assert main(["show", str(tmp_path)]) == 2
    assert "no run folder" in capsys.readouterr().err


def test_completion_knows_every_option(capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert 'estimate) words="--help --verbosity --delta' in script
    checked = subprocess.run(["bash", "-n"], input=script, text=True, check=False)
    assert checked.returncode == 0
    typed = f"{script}\nCOMP_WORDS=(fl-audit run --res); COMP_CWORD=2; _fl_audit; echo $COMPREPLY"
    completed = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "--resume"


# In a process of its own: a failed import of TensorFlow cannot be repeated.
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({absent!r}))
from fl_audit.cli import main
sys.exit(main({words!r}))
"""


def run_without(absent, *words):
    program = WITHOUT.format(absent=list(absent), words=list(words))
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("runtime", "absent", "message"),
    [
        # Without any of the extras Matplotlib is missed first, then TensorBoard.
        ("auto", EXTRA_OF, "this needs matplotlib, which is not installed: .*'.[report]'"),
        ("auto", ["tensorboard"], "this needs tensorboard, which is not installed: .*make setup"),
        ("jax", ["jax"], "this needs jax, which is not installed: .*'.[jax]'"),
        (
            "auto",
            ["jax", "tensorflow_federated"],
            "runtime: nothing that trains is installed; .*'fl-audit[jax]'.* `make setup`",
        ),
    ],
)
def test_a_missing_extra_is_one_line(runtime, absent, message, tmp_path):
    config = tmp_path / "config.toml"
    main(["init", "digits", "--out", str(config)])
    asked = ["--out", str(tmp_path / "run"), "--set", f"runtime={runtime}"]
    refused = run_without(absent, "run", str(config), *asked)
    assert refused.returncode == 2
    assert re.search(message.replace("[", "\\["), refused.stderr)
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_scores_are_audited_without_any_extra(tmp_path):
    scores = Path(__file__).parents[1] / "recorded" / "inputs" / "shifted_10000.csv"
    answered = run_without(EXTRA_OF, "estimate", str(scores), "--delta", "1e-3", "--dim", "10000")
    assert answered.returncode == 0, answered.stderr
    assert "lower bound   ε ≥ 3.60" in answered.stdout


def test_show_opens_the_page(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr("fl_audit.comparison.read_report", lambda _: None)
    monkeypatch.setattr("fl_audit.commands.show.print_report", lambda *_: opened.append("report"))
    assert main(["show", str(tmp_path), "--open"]) == 0
    assert opened == ["report", (tmp_path / "report.html").as_uri()]
