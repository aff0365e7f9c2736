"""Every program of ours that a page or the Makefile calls starts as it is printed there."""

import ast
import os
import re
import shlex
import signal
import subprocess
import sys

import pytest

from tests.tests_of_docs import PAGES, ROOT, indented_blocks

STARTED = """
import argparse, runpy, sys

def taken(parser, *words, **how):
    parse(parser, *words, **how)
    sys.exit()

parse, argparse.ArgumentParser.parse_args = argparse.ArgumentParser.parse_args, taken
module, has_parser, *sys.argv[1:] = sys.argv[1:]
runpy.run_module(module, run_name="__main__" if has_parser == "True" else "imported")
"""
"""Starts a program with its words until its parser has taken them; imports one without a parser."""

OF_OTHERS = r"(?:fml|fbm|wild|\.venv-\w+)/bin/"
"""Environments with packages of others, which pages make first."""


def printed() -> list[str]:
    """The command lines that call experiments or benchmarks by Python, each once."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    parts = [part for text in texts.values() for part in re.findall(r"`([^`\n]+)`", text)]
    parts += [block for text in texts.values() for block in indented_blocks(text)]
    parts.append((ROOT / "Makefile").read_text(encoding="utf-8").replace("$(BIN)/", ""))
    lines = "\n".join(parts).replace("\\\n", " ").replace("$(PICTURES)", "runs").splitlines()
    ours = r"(?:-m (?:experiments|benchmarks)\.|(?:experiments|benchmarks)/)"
    calls = [
        re.split(r" #| \| | > ", line.strip())[0].strip()
        for line in lines
        if re.match(rf"\s*(?:{OF_OTHERS}|\.venv/bin/)?python {ours}", line)
    ]
    return sorted({call for call in calls if not re.search(r"…|\w\|\w|\[", call)})


def _file_and_words(call: str) -> tuple[str, list[str]]:
    _, *words = shlex.split(call)
    if words[0] != "-m":
        return words[0], words[1:]
    place = words[1].replace(".", "/")
    return (f"{place}/__main__.py" if (ROOT / place).is_dir() else f"{place}.py"), words[2:]


def _of_another_environment(errors: str) -> str | None:
    """The package that a program lacks, if it is none of ours."""
    missing = re.search(r"No module named '(\w+)", errors)
    ours = ("experiments", "benchmarks", "tests", "fl_audit")
    return missing[1] if missing and missing[1] not in ours else None


def test_programs_that_are_called_by_their_path_import_nothing_of_the_root():
    assert len(printed()) > 40
    by_path = {file for file, _ in map(_file_and_words, printed())} - {
        file for file, _ in (_file_and_words(call) for call in printed() if " -m " in call)
    }
    for file in by_path:
        source = (ROOT / file).read_text(encoding="utf-8")
        if "sys.path.insert" in source:
            continue  # a script that finds the root by itself
        nodes = [*ast.walk(ast.parse(source))]
        named = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        named += [a.name for node in nodes if isinstance(node, ast.Import) for a in node.names]
        roots = {name.split(".")[0] for name in named}
        assert not roots & {"experiments", "benchmarks", "tests"}, file


RUN_BY_NO_OTHER_TEST = (
    *("benchmarks.canaries", "benchmarks.correlated_noise", "benchmarks.estimators"),
    *("benchmarks.jax_memory", "benchmarks.lstm_products", "benchmarks.ray_cohorts"),
    *("benchmarks.whitening", "broken_mechanisms.correct_toys", "broken_mechanisms.power"),
    *("coverage.run", "coverage.verdicts", "dp_sgd.random_images", "in_the_wild.adapters"),
    *("negoescu2024_appendix_b.digits", "negoescu2024_figure_1.uninformative_losses"),
    *("production.common_direction", "production.strategies_at_one_epsilon"),
    "yildirim2025_table1.run",
)
SECONDS = 40


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        call
        for call in printed()
        if any(f"{name} " in f"{call} " for name in RUN_BY_NO_OTHER_TEST) and "DATA" not in call
    ],
)
def test_it_runs_as_printed_to_its_end_or_for_some_seconds(call, tmp_path):
    _, *words = shlex.split(call)
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        try:
            _, errors = program.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            _, errors = program.communicate()
        ended = program.returncode
    if missing := _of_another_environment(errors):
        pytest.skip(f"{missing} is in an environment of its own")
    assert "Traceback" not in errors and ended in (0, -signal.SIGKILL), errors


@pytest.mark.slow
@pytest.mark.parametrize("call", [call for call in printed() if not re.match(OF_OTHERS, call)])
def test_it_starts_and_takes_the_words_that_are_printed(call):
    file, words = _file_and_words(call)
    module = file.removesuffix(".py").replace("/", ".").removesuffix(".__main__")
    has_parser = "ArgumentParser(" in (ROOT / file).read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", STARTED, module, str(has_parser), *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if missing := _of_another_environment(done.stderr):
        pytest.skip(f"{missing} is in an environment of its own")
    assert done.returncode == 0, done.stderr
