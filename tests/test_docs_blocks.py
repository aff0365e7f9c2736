"""Every block of code in README, docs, examples and experiments is run or checked by a test.

Commands must parse, with options, config keys, files and targets that are there. Python runs: cheap
blocks here, those that train in the tests that `RUN_ELSEWHERE` names. Configs are read.
"""

import ast
import functools
import re
import shlex
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest
from tests_of_docs import PAGES, ROOT, blocks, indented_blocks

from fl_audit import cli
from fl_audit.config.reference import config_tables
from fl_audit.errors import InputError

RUN_ELSEWHERE = {
    "README.md": "tests/test_docs_blocks.py",  # the loop of docs/any_process.md, see below
    "docs/any_process.md": "tests/engines/tff/test_canary_clients.py",
    "docs/checks.md": "tests/checks/test_measured_rounds.py",
    "docs/logs.md": "tests/attacks/test_logs.py",
    "docs/membership.md": "tests/pipeline/test_attack.py",
    "docs/own_task.md": "tests/run/test_own_tasks.py",
    "docs/plugins.md": "tests/config_tables/plugins_page.py",
    "docs/replay.md": "tests/checks/test_replay.py",
    "docs/sweeps.md": "tests/comparison/test_exports.py",
}
"""Pages whose Python another test runs."""

KEYS = {(table.name, key.name) for table in config_tables() for key in table.keys}
TABLES = {table.name for table in config_tables()}


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _lines(parts: list[str]) -> Iterator[list[str]]:
    """The words of every command line, without its comment and what follows in the shell."""
    for line in "\n".join(parts).replace("\\\n", " ").splitlines():
        starts = re.match(r"\s*(\S*fl-audit|make|\S*python[\d.]*|pytest|pip) \S", line)
        if starts and not re.search(r"…|\[--|\$\(", line):
            yield shlex.split(re.split(r" #| \| | > | \|\| ", line)[0])


def _in_blocks(page: Path) -> list[list[str]]:
    text = page.read_text(encoding="utf-8")
    return [*_lines([*blocks(text, "bash"), *indented_blocks(text)])]


def _in_sentences(page: Path) -> list[list[str]]:
    return [*_lines(re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")))]


_parser = functools.cache(cli._parser)


def _check_program(words: list[str], page: Path) -> None:
    """The parser takes a command of the program, and the keys and files that it names are there."""
    try:
        parsed = vars(_parser().parse_args(words))
    except SystemExit as end:  # --help and --version
        assert end.code == 0, (_name(page), words)
        return
    for override in parsed.get("overrides") or ():
        section, _, key = override.partition("=")[0].rpartition(".")
        known = (section, key) in KEYS or key == "kind" or (not section and key in TABLES)
        assert known or section in ("attack", "section"), override
    ours = [word for word in words if word.startswith(("experiments/", "examples/", "fl_audit/"))]
    assert not [word for word in ours if not (ROOT / word).exists()], _name(page)


def test_commands_parse():
    """A sentence may leave out what the page has named before, but invents no option."""
    for page in PAGES:
        for program, *words in _in_blocks(page):
            if program.endswith("fl-audit"):
                _check_program(words, page)
        for program, *words in _in_sentences(page):
            if program.endswith("fl-audit") and words[0] != "COMMAND":
                try:
                    _check_program(words, page)
                except InputError as error:
                    is_short = str(error).startswith("required and not given: ")
                    assert is_short, f"{_name(page)}: {error}"


def _missing(program: str, words: list[str]) -> Iterator[str]:
    """What a command line of make, pip or python names that is not there."""
    if program == "make":
        targets = re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(), re.M)
        yield from (word for word in words if word not in " ".join(targets).split())
    if program == "pip":
        setup = ConfigParser()
        setup.read(ROOT / "setup.cfg")
        named = ",".join(extra for word in words for extra in re.findall(r"\[([\w,]+)\]", word))
        yield from (e for e in named.split(",") if e and e not in setup["options.extras_require"])
    if program.startswith(("python", "pytest")):
        yield from (
            w for w in words if re.fullmatch(r"\w+/[\w/]+\.py", w) and not (ROOT / w).exists()
        )
        modules = [word for flag, word in pairwise(words) if flag == "-m" and "." in word]
        paths = [ROOT / module.replace(".", "/") for module in modules]
        yield from (str(p) for p in paths if not (p.is_dir() or p.with_suffix(".py").exists()))


def test_other_commands_name_what_is_there():
    commands = [(p, words) for p in PAGES for words in (*_in_blocks(p), *_in_sentences(p))]
    assert not [
        (_name(page), missing)
        for page, words in commands
        for missing in _missing(words[0].rpartition("/")[2], words[1:])
    ]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page.read_text(), "python")], ids=_name
)
def test_python_of_a_page_is_run(page, tmp_path, monkeypatch):
    """A page's blocks run one after the other, as a reader would paste them."""
    other = RUN_ELSEWHERE.get(_name(page))
    if other:
        assert page.name in (ROOT / other).read_text(encoding="utf-8")
        return
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page.read_text(encoding="utf-8"), "python"):
        exec(compile(block, _name(page), "exec"), names)


def _imports(page: Path) -> Iterator[tuple[str, str]]:
    """Modules and names of ours that indented Python imports: parts of programs that do not run."""
    for block in indented_blocks(page.read_text(encoding="utf-8")):
        if re.search(r"^    (from|import|def|class) ", block, re.MULTILINE):
            for node in ast.walk(ast.parse(dedent(block))):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("fl_audit"):
                    yield from ((str(node.module), alias.name) for alias in node.names)


def test_python_that_does_not_run_imports_what_is_there():
    for module, name in {found for page in PAGES for found in _imports(page)}:
        place = ROOT / module.replace(".", "/")
        source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        assert re.search(rf"\b{name}\b", source.read_text(encoding="utf-8")), f"{module}.{name}"


def test_names_of_ours_in_sentences_exist():
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    for dotted in set(re.findall(r"\bfl_audit(?:\.\w+)+", "\n".join(texts))):
        place, *rest = ROOT / "fl_audit", *dotted.split(".")[1:]
        while rest and ((place / rest[0]).is_dir() or (place / f"{rest[0]}.py").exists()):
            place /= rest.pop(0)
        source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        names = source.read_text(encoding="utf-8")
        assert not rest or (len(rest) == 1 and re.search(rf"\b{rest[0]}\b", names)), dotted


def test_the_loop_in_the_readme_is_that_of_any_process():
    def lines(text: str) -> list[str]:
        return [line.partition("  #")[0].strip() for line in text.splitlines()]

    (short,) = blocks((ROOT / "README.md").read_text(), "python")
    long = lines(blocks((ROOT / "docs/any_process.md").read_text(), "python")[0])
    pasted = short.replace("cohort(round_number)", "cohort")
    pasted = pasted.replace("num_rounds=20", "num_rounds=ROUNDS").replace(
        "(1, 21)", "(1, ROUNDS + 1)"
    )
    assert not [line for line in lines(pasted) if line not in long]


def test_configs_have_keys_that_are_known():
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    for block in blocks("\n".join(texts), "toml"):
        table = tomllib.loads(block)
        if "base" in table or "attack" in table:
            continue  # a sweep and an attack, which tests/sweeps and tests/pipeline read
        if "plugins" in table:
            continue  # keys of the page's own kinds, which tests/config_tables/test_plugins.py runs
        for section, values in table.items():
            keys = values if isinstance(values, dict) else {}
            known = {key for name, key in KEYS if name == section} | {"kind", "options", "zeroing"}
            assert set(keys) <= known, f"[{section}] {set(keys) - known}"
            assert isinstance(values, dict) or ("", section) in KEYS, section


def test_a_recipe_in_yaml_is_run_elsewhere():
    pages = [page for page in PAGES if blocks(page.read_text(encoding="utf-8"), "yaml")]
    assert [_name(page) for page in pages] == ["docs/ci.md"]  # tests/pipeline/test_ci_recipe.py


def test_every_block_has_a_language_that_is_checked():
    unknown = [
        (_name(page), language)
        for page in PAGES
        for language in re.findall(r"^```(.*)\n(?:.*\n)*?```$", page.read_text(), re.M)
        if language not in ("python", "toml", "bash", "text", "yaml")
    ]
    assert not unknown
