"""Every command in a block of README and docs is run, in the order of its page, in a fresh folder.

What a page shows of their output is held against it, but for numbers and what stands in brackets.
`NOT_RUN` says which commands are not run here, and why.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from test_docs_blocks import _in_blocks
from test_starting_points import _stackoverflow
from tests_of_docs import PAGES, ROOT, blocks, indented_blocks

from fl_audit.cli import main

pytestmark = [pytest.mark.tff, pytest.mark.slow]

NOT_RUN = {
    ".venv/bin/fl-audit quickstart": "without TensorFlow: tests/engines/jax/test_jax_run.py",
    "make test": "it is what runs this",
    "make setup": ".ci/fresh_debian",
    "python": ".ci/fresh_debian; experiments have their own tests",
    "pip": "tests/test_wheel.py",
    "fl-audit sweep": "Ray is not in this environment: tests/sweeps",
    "fl-audit attack": "tests/pipeline/test_attack.py, on the configs of the page",
    "fl-audit --version": "tests/commands/test_small_commands.py",
    "fl-audit run experiments/participation_patterns": "tests/comparison/test_patterns_page.py",
    "fl-audit plan experiments/participation_patterns": "tests/comparison/test_patterns_page.py",
    "fl-audit mcmc": "half an hour; tests/commands/test_mcmc_command.py with fewer draws",
}
"""The commands that are not run here, by what they begin with, and why or where they are."""

FEWER = ("participation.rounds=12", "canaries.count=60")
"""What makes a run short where the page's own numbers are not shown."""


@dataclass(frozen=True)
class Walk:
    """How a page's commands are run.

    Attributes:
      prepare: A function that puts into the folder what the page takes to be there, and returns
        settings that the page's runs and plans need instead of the data.
      changes: Further settings of runs and plans.
      statuses: The exit statuses that a command may have beside 0, by its first words.
    """

    prepare: Callable[[Path], list[str]] = lambda folder: []
    changes: tuple[str, ...] = FEWER
    statuses: dict[str, int] = field(default_factory=dict)


def _log(folder: Path) -> list[str]:
    for name in ("audit_log", "log"):
        shutil.copytree(ROOT / "tests/recorded/inputs/log_of_cosines", folder / name)
    return []


def _log_and_settings(folder: Path) -> list[str]:
    shutil.copytree(ROOT / "experiments/production", folder / "experiments/production")
    return _log(folder)


def _config_with_claim(folder: Path) -> list[str]:
    _log(folder)
    main(["init", "digits", "--out", str(folder / "config.toml")])
    return ["audit.claimed_epsilon=8.0", "audit.claimed_delta=1e-5", "audit.delta=1e-5"]


def _config(folder: Path) -> list[str]:
    main(["init", "digits", "--out", str(folder / "config.toml")])
    rows = "".join(f"{i},{i % 2},{(i % 2) * 0.001 + i * 1e-5}\n" for i in range(60))
    (folder / "scores.csv").write_text("canary_id,included,score\n" + rows)
    return []


def _own_task(folder: Path) -> list[str]:
    text = (ROOT / "docs/own_task.md").read_text(encoding="utf-8")
    (folder / "my_task.py").write_text(blocks(text, "python")[0])
    (folder / "config.toml").write_text(blocks(text, "toml")[0])
    return []


def _plugins(folder: Path) -> list[str]:
    text = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    (folder / "my_kinds.py").write_text(blocks(text, "python")[0])
    (folder / "config.toml").write_text(blocks(text, "toml")[0])
    return []


def _short_config(folder: Path) -> list[str]:
    """A config that needs no setting, as a commitment allows none."""
    _config(folder)
    path = folder / "config.toml"
    text = path.read_text(encoding="utf-8").replace("\nrounds = 100", "\nrounds = 12")
    path.write_text(text.replace("\ncount = 500", "\ncount = 60"))
    return []


def _finished_run(folder: Path) -> list[str]:
    _short_config(folder)
    text = (ROOT / "docs/release_sheet.md").read_text(encoding="utf-8")
    (folder / "statement.toml").write_text(blocks(text, "toml")[0])
    main(["run", str(folder / "config.toml"), "--out", str(folder / "runs/release")])
    return []


_FEW_CLIENTS = ("participation.clients_per_round=2", "participation.rounds=4", "canaries.count=20")

WALKS = {
    "README.md": Walk(_log_and_settings),
    "docs/any_process.md": Walk(_log),
    "docs/broken_mechanisms.md": Walk(_log, statuses={"estimate audit_log": 3}),
    "docs/logs.md": Walk(_log),
    "docs/mechanisms.md": Walk(),
    "docs/own_task.md": Walk(_own_task, changes=()),
    "docs/plugins.md": Walk(_plugins, changes=()),
    "docs/release.md": Walk(_config_with_claim),
    "docs/release_sheet.md": Walk(_finished_run),
    "docs/research.md": Walk(_stackoverflow, _FEW_CLIENTS),
    "docs/runs.md": Walk(),
    "docs/tutorial.md": Walk(changes=(), statuses={"estimate runs/noise_0.3": 3}),
    "docs/verdict.md": Walk(_config),
    "docs/verify.md": Walk(_short_config, changes=()),
}


def _is_run(words: list[str]) -> bool:
    program = words[0].rpartition("/")[2]
    line = " ".join(["python" if program.startswith("python") else program, *words[1:]])
    return not any(start in (line[: len(start)], " ".join(words)) for start in NOT_RUN)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _ours() -> list[Path]:
    return [page for page in PAGES if _name(page) == "README.md" or "docs" in page.parts]


def test_every_command_is_run_or_has_a_reason():
    pages = {_name(page) for page in _ours() if any(map(_is_run, _in_blocks(page)))}
    assert pages == set(WALKS)


def _skeleton(text: str) -> str:
    """A text without its numbers, what stands in brackets, and breaks of lines."""
    without = re.sub(r"\([^()]*\)", "", text)
    numbers = re.sub(r"[−-]?[\d,]*\.?\d+(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?|∞", "#", without)
    return " ".join(numbers.split())


def _shown(page: Path) -> list[str]:
    """The blocks of output on a page: those that hold neither commands nor code."""
    found = indented_blocks(page.read_text(encoding="utf-8"))
    return [
        block
        for block in found
        if re.match(r"    (noise mult|upper bound|canary check|verdict)", block)
    ]


def _sentences(block: str) -> list[str]:
    """The lines of a block; one that opens a bracket goes on to the line that closes it."""
    made: list[str] = []
    for line in block.splitlines():
        if made and made[-1].count("(") > made[-1].count(")"):
            made[-1] += f" {line}"
        else:
            made.append(line)
    return made


@pytest.mark.usefixtures("as_in_a_new_process")
@pytest.mark.parametrize("name", WALKS)
def test_the_commands_of_a_page_run_in_its_order(name, tmp_path, monkeypatch, capsys):
    walk, page = WALKS[name], ROOT / name
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    settings = [*walk.changes, *walk.prepare(tmp_path)]
    changes = [word for setting in settings for word in ("--set", setting)]
    capsys.readouterr()
    printed = ""
    for program, *words in filter(_is_run, _in_blocks(page)):
        called = ["quickstart"] if program == "make" else words
        has_settings = called[0] in ("run", "plan") and "numbers" not in " ".join(called)
        status = main([*called, *(changes if has_settings else [])])
        allowed = {0, walk.statuses.get(" ".join(called[:2]), 0)}
        if "--claimed-epsilon" in called or walk.prepare is _config_with_claim:
            allowed.add(3)
        if "--require" in called:
            allowed.add(4)  # so few canaries are inconclusive
        out = capsys.readouterr()
        assert status in allowed, f"{' '.join(called)}: {out.err}"
        printed += out.out
    found = _skeleton(printed)
    shown = [line for block in _shown(page) for line in _sentences(block)]
    assert not [line for line in map(_skeleton, shown) if line not in found]
