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

SCORES = Path(__file__).parents[1] / "recorded" / "inputs" / "shifted_10000.csv"


def test_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"fl-audit {fl_audit.__version__}\n"
    assert fl_audit.__version__.count(".") == 2


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


TRAINING = ["run", "config.toml", "--out", "run", "--set"]
ESTIMATE = ["estimate", str(SCORES), "--delta", "1e-3", "--dim", "10000"]


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A config in the current folder."""
    monkeypatch.chdir(tmp_path)
    main(["init", "digits", "--out", "config.toml"])
    return tmp_path


# In a process of its own, where nothing has been imported: an import is not repeated.
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({absent!r}))
from fl_audit.cli import main
sys.exit(sum(main(words) for words in {calls!r}))
"""


def run_without(absent, *calls):
    program = WITHOUT.format(absent=list(absent), calls=calls)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


def test_scores_are_audited_without_any_extra_and_nothing_is_trained(config):
    done = run_without(EXTRA_OF, ESTIMATE, [*TRAINING, "runtime=auto"])
    assert done.returncode == 0 + 2, done.stderr
    assert "lower bound   ε ≥ 3.60" in done.stdout
    # What pages need is missed first, then TensorBoard.
    missed = r"this needs (jinja2|matplotlib), which is not installed: .*'.\[report\]'.*\n"
    assert re.fullmatch(f"fl-audit: error: {missed}", done.stderr)
    assert not (config / "run").exists()


def test_only_pages_need_the_packages_of_pages(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scores_max.csv").write_bytes(SCORES.read_bytes())
    table = tmp_path / "table.csv"
    words = ["compare", str(tmp_path / "old"), str(tmp_path / "new"), "--delta", "1e-3"]
    page = ["--out", str(tmp_path / "page.html")]
    done = run_without(["jinja2", "markupsafe"], [*words, "--csv", str(table)], [*words, *page])
    assert done.returncode == 0 + 2, done.stderr
    assert table.exists()
    assert re.search("error: this needs (jinja2|markupsafe), which is not installed", done.stderr)
    refused = run_without(["jinja2", "markupsafe"], [*ESTIMATE, *page])
    assert refused.returncode == 2
    assert re.search(
        "error: this needs (jinja2|markupsafe), which is not installed", refused.stderr
    )


def test_tensorboard_is_missed_before_a_folder_is_made(config):
    refused = run_without(["tensorboard"], [*TRAINING, "runtime=auto"])
    assert refused.returncode == 2
    assert re.search("this needs tensorboard, which is not installed: .*make setup", refused.stderr)
    assert refused.stderr.count("\n") == 1
    assert not (config / "run").exists()


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        ("jax", r"this needs jax, which is not installed: .*'.\[jax\]'"),
        ("auto", r"runtime: nothing that trains is installed; .*'fl-audit\[jax\]'.* `make setup`"),
    ],
)
def test_a_missing_engine_is_one_line(config, monkeypatch, capsys, runtime, message):
    for package in ("jax", "tensorflow_federated"):
        monkeypatch.setitem(sys.modules, package, None)
    capsys.readouterr()
    assert main([*TRAINING, f"runtime={runtime}"]) == 2
    line = capsys.readouterr().err
    assert re.search(message, line)
    assert line.count("\n") == 1
    assert not (config / "run").exists()


def test_show_opens_the_page(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr("fl_audit.comparison.read_report", lambda _: None)
    monkeypatch.setattr("fl_audit.commands.show.print_report", lambda *_: opened.append("report"))
    assert main(["show", str(tmp_path), "--open"]) == 0
    assert opened == ["report", (tmp_path / "report.html").as_uri()]
