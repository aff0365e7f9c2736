"""Every program of ours that a page or the Makefile calls starts as it is printed there."""

import ast
import json
import os
import re
import shlex
import signal
import subprocess
import sys

import pytest

from tests.tests_of_docs import PAGES, ROOT, indented_blocks

STARTED = """
import argparse, json, runpy, sys, traceback

class Taken(Exception):
    pass

def taken(parser, *words, **how):
    parse(parser, *words, **how)
    raise Taken

parse, argparse.ArgumentParser.parse_args = argparse.ArgumentParser.parse_args, taken
for module, has_parser, *words in json.load(sys.stdin):
    sys.argv[1:] = words
    try:
        runpy.run_module(module, run_name="__main__" if has_parser else "imported")
    except Taken:
        pass
    except (Exception, SystemExit):
        print(json.dumps([[module, *words], traceback.format_exc()]), flush=True)
    for name in [name for name in sys.modules if name.startswith(("experiments", "benchmarks"))]:
        del sys.modules[name]
print("to its end")
"""
"""Starts programs with their words until their parsers have taken them; imports those without one.

All in one process, in which TensorFlow and JAX are imported once.
"""

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
SECONDS = 15


@pytest.mark.slow
@pytest.mark.parametrize("program", RUN_BY_NO_OTHER_TEST)
def test_it_runs_as_printed_to_its_end_or_for_some_seconds(program, tmp_path):
    calls = [call for call in printed() if f"{program} " in f"{call} " and "DATA" not in call]
    _, *words = shlex.split(calls[0])
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            _, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            _, errors = process.communicate()
        ended = process.returncode
    if missing := _of_another_environment(errors):
        pytest.skip(f"{missing} is in an environment of its own")
    assert "Traceback" not in errors and ended in (0, -signal.SIGKILL), errors


@pytest.mark.slow
def test_all_start_and_take_the_words_that_are_printed():
    calls = []
    for call in printed():
        if re.match(OF_OTHERS, call):
            continue
        file, words = _file_and_words(call)
        module = file.removesuffix(".py").replace("/", ".").removesuffix(".__main__")
        calls.append(
            [module, "ArgumentParser(" in (ROOT / file).read_text(encoding="utf-8"), *words]
        )
    done = subprocess.run(
        [sys.executable, "-c", STARTED],
        cwd=ROOT,
        input=json.dumps(calls),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    *failed, last = done.stdout.splitlines()
    assert last == "to its end", done.stderr
    failed = [json.loads(line) for line in failed if line.startswith("[[")]
    assert not [one for one in failed if not _of_another_environment(one[1])], done.stderr
