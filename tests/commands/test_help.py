"""Help: the commands in groups, and for each its defaults and an example that parses."""

import shlex

import pytest

from fl_audit import cli
from fl_audit.attacks.threat_models import THREAT_MODELS
from fl_audit.canaries.families import FAMILIES
from fl_audit.cli import main
from fl_audit.config.reference import config_tables
from fl_audit.engines.runtimes import RUNTIMES
from fl_audit.errors import _TERMS, nearest
from fl_audit.estimators import METHODS
from fl_audit.formats import participation_files
from fl_audit.mechanisms import MECHANISMS
from fl_audit.participation import PATTERNS

COMMANDS = sorted(
    command.__name__.rpartition(".")[2].replace("_", "-")
    for group in cli._GROUPS.values()
    for command in group
)


def _help(capsys, monkeypatch, *words):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--help"])
    assert stopped.value.code == 0
    return capsys.readouterr().out


def test_the_commands_stand_in_groups_a_line_each(capsys, monkeypatch):
    lines = _help(capsys, monkeypatch).splitlines()
    for title in cli._GROUPS:
        assert f"{title}:" in lines
    listed = [line.split()[0] for line in lines if line.startswith("  ") and line[2].islower()]
    assert sorted(listed) == COMMANDS
    assert lines.index("compare:") < next(n for n, s in enumerate(lines) if s[:9] == "  compare")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_an_example_that_parses(capsys, monkeypatch, command):
    text = _help(capsys, monkeypatch, command)
    program, *words = shlex.split(text.partition("example:\n")[2].partition(">")[0])
    assert (program, words[0]) == ("fl-audit", command)
    assert cli._parser().parse_args(words).command


@pytest.mark.parametrize(
    ("command", "option", "default"),
    [("counts", "--confidence", "0.9"), ("mcmc", "--seed", "0"), ("plan", "--runs", "1")],
)
def test_help_says_the_default(capsys, monkeypatch, command, option, default):
    text = _help(capsys, monkeypatch, command).partition("options:")[2]
    told = text.partition(f"  {option} ")[2].partition("\n  -")[0]
    assert " ".join(told.split()).endswith(f"; default: {default}")


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("poisson", ["bernoulli", "shuffle", "cyclic_poisson"], "'bernoulli' (Poisson sampling)?"),
        ("Fixed-size", ["bernoulli", "uniform"], "'uniform' (a fixed number of clients"),
        ("bernoulli", ["none", "poisson", "fixed_size"], "'poisson' (each client with the same"),
        ("sigma", ["noise_multiplier", "clip_norm"], "'noise_multiplier' (standard deviation"),
    ],
)
def test_the_fields_word_is_answered_with_ours(word, known, hint):
    assert nearest(word, known).startswith(f"did you mean {hint}")


def test_terms_lead_to_names_that_are_there():
    tables = config_tables()
    keys = {key.name for table in tables for key in table.keys}
    kinds = {kind for kinds in (PATTERNS, MECHANISMS) for kind in kinds}
    sampling = participation_files.SAMPLING_NAMES
    known = keys | kinds | {*sampling, *FAMILIES, *THREAT_MODELS, *METHODS, *RUNTIMES, *COMMANDS}
    assert not [name for name in _TERMS if name not in known]
