"""The examples of docs/logs.md, run as they stand there."""

import json
import re
import shlex
from pathlib import Path

import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.canaries.pool import read_pool
from fl_audit.cli import main

TEXT = (Path(__file__).parent.parent.parent / "docs" / "logs.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where the Python of the page has run, from top to bottom."""
    folder = tmp_path_factory.mktemp("doc")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        names: dict[str, object] = {}
        for block in blocks("python"):
            exec(compile(block, "docs/logs.md", "exec"), names)
    return folder


def test_the_server_scored_every_round(folder):
    scorer = RoundScorer.open(folder / "audit")
    assert scorer.scored_rounds == list(range(1, 31))
    assert {path.name for path in (folder / "audit").glob("scores_*.csv")} == {
        f"scores_{name}.csv" for name in ("final", "final_minus_initial", "max", "sum")
    }


def test_the_folder_by_hand_is_of_the_same_pool(folder):
    written = read_pool(folder / "log" / "pool.json")
    assert written == read_pool(folder / "audit" / "pool.json")
    (line,) = re.findall(r'`(\{"format_version".*?\})`', TEXT)
    assert written == CanaryPool(**{k: v for k, v in json.loads(line).items() if k[:6] != "format"})


def test_the_commands_work(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    commands = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(commands) == 3
    for command in commands:
        program, *argv = shlex.split(command)
        assert program == "fl-audit"
        # 3: a canary that takes part in every third round, under little noise, is found.
        assert main(argv) in ((0, 3) if "--claimed-epsilon" in argv else (0,))
        assert "max" in capsys.readouterr().out
