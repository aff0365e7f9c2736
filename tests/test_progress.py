"""What stands on standard error at each verbosity, of this program and of the libraries below."""

import contextlib
import io
import json
import logging
import os
import subprocess
import sys

import pytest
from absl import flags
from absl import logging as absl_logging

from fl_audit.cli import main
from fl_audit.progress import VERBOSITIES, Progress, bar, hint, set_verbosity, warn
from tests.small_configs import TINY_RUN


@pytest.fixture
def kept_verbosity(monkeypatch):
    """Puts back what `set_verbosity` sets."""
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    loggers = [logging.getLogger(name) for name in ("fl_audit.progress", "tensorflow", None)]
    levels, handlers = [logger.level for logger in loggers], list(logging.root.handlers)
    of_absl, parsed = absl_logging.get_verbosity(), flags.FLAGS.is_parsed()
    yield
    logging.root.handlers[:] = handlers
    absl_logging.set_verbosity(of_absl)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    if not parsed:
        flags.FLAGS.unparse_flags()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _said(terminal: io.StringIO) -> set[str]:
    """The kinds of lines that are shown."""
    with contextlib.redirect_stderr(terminal):
        warn("a warning")
        hint("a hint")
        with Progress("work", 10, "step") as progress:
            progress.advance(5)
        assert list(bar(range(3), "loop")) == [0, 1, 2]
    text = terminal.getvalue()
    kinds = {"a warning": "warning", "a hint": "hint", "work: ": "progress", "loop: ": "bar"}
    return {kind for words, kind in kinds.items() if words in text}


@pytest.mark.parametrize(
    ("level", "in_a_file", "on_a_terminal"),
    [
        ("error", set(), set()),
        ("warning", {"warning"}, {"warning"}),
        ("info", {"warning", "progress"}, {"warning", "hint", "progress", "bar"}),
        ("debug", {"warning", "progress"}, {"warning", "hint", "progress", "bar"}),
    ],
)
def test_each_level_adds_to_the_one_before(kept_verbosity, level, in_a_file, on_a_terminal):
    set_verbosity(level)
    assert _said(io.StringIO()) == in_a_file
    assert _said(_Terminal()) == on_a_terminal


@pytest.mark.parametrize(
    ("level", "libraries"),
    list(zip(VERBOSITIES, ("ERROR", "WARNING", "WARNING", "INFO"), strict=True)),
)
def test_libraries_log_as_much(kept_verbosity, level, libraries):
    set_verbosity(level)
    of_libraries = logging.getLevelName(libraries)
    assert logging.getLogger("absl").getEffectiveLevel() == of_libraries
    assert logging.getLogger("tensorflow").getEffectiveLevel() == of_libraries
    assert os.environ.get("TF_CPP_MIN_LOG_LEVEL") == ("0" if level == "debug" else None)


def test_what_libraries_tell_names_its_file(kept_verbosity):
    terminal = io.StringIO()
    with contextlib.redirect_stderr(terminal):
        set_verbosity("debug")
        absl_logging.get_absl_handler().python_handler.stream = terminal
        absl_logging.info("a graph is made")
    assert terminal.getvalue().startswith("I")
    assert "test_progress.py:" in terminal.getvalue()
    assert terminal.getvalue().endswith("] a graph is made\n")
    absl_logging.get_absl_handler().python_handler.stream = sys.stderr


def test_a_log_level_of_the_users_own_stays(kept_verbosity, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    set_verbosity("debug")
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "2"


def test_the_command_line_takes_it_anywhere_and_results_stay(kept_verbosity, capsys):
    counts = ["counts", "--fn=35", "--tp=65", "--fp=25", "--tn=75", "--delta=0.05", "--json"]
    assert main(counts) == 0
    printed = capsys.readouterr()
    for level in VERBOSITIES:
        assert main([*counts, "--verbosity", level]) == 0
        assert capsys.readouterr() == printed
    assert main([*counts, "--verbosity", "loud"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert all(level in error for level in VERBOSITIES)


def test_an_unknown_level_is_an_error():
    with pytest.raises(ValueError, match="level must be one of error, warning, info, debug"):
        set_verbosity("loud")


@pytest.mark.slow
@pytest.mark.tff
@pytest.mark.parametrize("level", ["error", "debug"])
def test_a_run_is_silent_or_tells_everything(tmp_path, level):
    (tmp_path / "run.toml").write_text(TINY_RUN)
    words = ["run", "run.toml", "--out", "out", "--json", "--verbosity", level]
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-m", "fl_audit", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(json.loads(done.stdout)["statistics"])
    if level == "error":
        assert done.stderr == ""
    else:
        assert "] Using Grappler on `MapReduceForm` TensorFlow graphs." in done.stderr
        assert "tensorflow/core/" in done.stderr  # its C++ log
        assert "out: 4 of 4 rounds" in done.stderr
