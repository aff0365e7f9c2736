"""What stands on standard error at each verbosity, of this program and of the libraries below."""

import contextlib
import io
import itertools
import json
import logging
import os
import subprocess
import sys
import time

import pytest
from absl import flags
from absl import logging as absl_logging

from fl_audit import progress as module
from fl_audit.cli import main
from fl_audit.progress import (
    VERBOSITIES,
    Progress,
    bar,
    doing,
    hint,
    lines_to,
    set_verbosity,
    warn,
)
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


def _until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def impatient(monkeypatch):
    """Says what is done after a tenth of a second, whatever the machine does beside."""
    monkeypatch.setattr(module, "LONGEST_SILENCE", 0.1)
    monkeypatch.setattr(module, "_BEAT", 0.02)


def test_long_work_is_named_and_the_inner_one_speaks(impatient):
    terminal = io.StringIO()
    with contextlib.redirect_stderr(terminal), doing("the command"):
        _until(lambda: "the command" in terminal.getvalue())
        with doing("the report"):
            _until(lambda: "the report" in terminal.getvalue())
        before = terminal.getvalue().count("the command")
        _until(lambda: terminal.getvalue().count("the command") > before)
    lines = terminal.getvalue().splitlines()
    speakers = [line.partition(", ")[0] for line in lines]
    assert [name for name, _ in itertools.groupby(speakers)] == [
        "the command",
        "the report",
        "the command",
    ]
    assert all(line in speakers or line.endswith(" s so far") for line in lines)


def test_counted_work_says_how_far_it_is_and_why_its_start_takes_long(impatient):
    log = io.StringIO()
    with contextlib.redirect_stderr(log), Progress("run", 40, "round", 0, "it compiles") as shown:
        _until(lambda: "run: 0 of 40 rounds (it compiles), " in log.getvalue())
        shown.advance()
        _until(lambda: "run: 1 of 40 rounds" in log.getvalue())
    with contextlib.redirect_stderr(log):
        for _ in bar([1], "loop"):
            _until(lambda: "loop" in log.getvalue())


def test_a_bar_on_a_terminal_goes_on_in_its_line_and_no_line_is_added(impatient):
    terminal = _Terminal()
    with contextlib.redirect_stderr(terminal), Progress("work", 10, "step"):
        drawn = terminal.getvalue().count("work:   0%")
        _until(lambda: terminal.getvalue().count("work:   0%") > drawn + 1)
    assert "so far" not in terminal.getvalue()
    assert "\n" not in terminal.getvalue()


def test_short_work_and_a_lower_level_say_nothing(impatient, kept_verbosity, monkeypatch):
    terminal = io.StringIO()
    with contextlib.redirect_stderr(terminal):
        set_verbosity("warning")
        with doing("the report"):
            time.sleep(0.3)
        set_verbosity("info")
        monkeypatch.setattr(module, "LONGEST_SILENCE", 60.0)
        with doing("the report"):
            time.sleep(0.1)
    assert terminal.getvalue() == ""


def test_lines_go_elsewhere_while_standard_error_is_turned_away(impatient):
    ours, away = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(away), lines_to(ours), doing("starting"):
        _until(lambda: "starting" in ours.getvalue())
    with contextlib.redirect_stderr(away):
        warn("later")
    assert away.getvalue() == "later\n"


def test_lines_become_rarer_the_longer_a_work_takes(monkeypatch):
    log, now = io.StringIO(), [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    pulse = module._Pulse()
    monkeypatch.setattr(module, "_PULSE", pulse)
    monkeypatch.setattr(module, "LONGEST_SILENCE", 8.0)
    work = module._Work(lambda: "training", begun=0.0)
    with contextlib.redirect_stderr(log):
        for second in range(36_000):
            now[0] = float(second)
            pulse._say(work)
    times = [int(line.split()[1]) for line in log.getvalue().splitlines()]
    assert times[:3] == [8, 16, 24]
    stretches = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert max(s for s, at in zip(stretches, times, strict=False) if at < 80) <= 10
    assert 50 < len(times) < 90


def test_heartbeats_are_off_by_the_environment_and_else_there():
    program = "from fl_audit.progress import LONGEST_SILENCE; print(LONGEST_SILENCE)"
    for chosen, seconds in (("off", "inf"), ("", "8.0")):
        said = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"FL_AUDIT_HEARTBEAT": chosen},
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stdout == seconds + "\n"


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
