"""The BUILD file names every module; its targets need what they import, and make no circle."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACES = ("fl_audit", "benchmarks", "experiments")
"""The folders whose modules libraries hold."""

TARGET = re.compile(r"^py_(?:library|binary)\((.*?)^\)", re.M | re.S)
TESTS = re.compile(r"^    py_test\((.*?)^    \)", re.M | re.S)


def targets() -> dict[str, str]:
    """The text of each library and program, by name."""
    bodies = TARGET.findall((ROOT / "BUILD").read_text())
    return {re.search(r'name = "(\w+)"', body)[1]: body for body in bodies}


def sources(body: str) -> set[Path]:
    """The files that a target names."""
    patterns = re.findall(r'"([\w/*]+\.py)"', body.partition("deps =")[0])
    return {path for pattern in patterns for path in ROOT.glob(pattern)}


def imported(module: Path) -> Iterator[Path]:
    """The files of this repository that one imports, wherever in it.

    A test calls another file of its folder by the bare name, as pytest lets it.
    """
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom):
            of_module = file_of(node.module, module.parent)
            for alias in node.names:
                yield file_of(f"{node.module}.{alias.name}", module.parent) or of_module
        elif isinstance(node, ast.Import):
            yield from (file_of(alias.name, module.parent) for alias in node.names)


def file_of(module: str, folder: Path) -> Path | None:
    """The file of a module or package; None where it is none of this repository."""
    places = [folder] if "." not in module and folder.is_relative_to(ROOT / "tests") else []
    if module.split(".", maxsplit=1)[0] in (*PLACES, "tests"):
        places.append(ROOT)
    paths = [place / Path(*module.split(".")) for place in places]
    found = (f for path in paths for f in (path.with_suffix(".py"), path / "__init__.py"))
    return next((file for file in found if file.exists()), None)


def test_every_module_is_in_one_target():
    named = [path for body in targets().values() for path in sources(body)]
    there = [path for place in PLACES for path in (ROOT / place).rglob("*.py")]
    assert sorted(named) == sorted(there)


def needs(body: str) -> list[str]:
    """The targets that a target says it needs."""
    return re.findall(r'":(\w+)"', body.partition("deps =")[2])


def test_targets_need_what_their_modules_import():
    target_of = {path: name for name, body in targets().items() for path in sources(body)}
    needed = defaultdict(set)
    for path, name in target_of.items():
        needed[name] |= {target_of[other] for other in imported(path) if other} - {name}
    for name, body in targets().items():
        assert sorted(needs(body)) == sorted(needed[name]), name


def test_tests_have_what_they_import():
    (body,) = TESTS.findall((ROOT / "BUILD").read_text())
    of_target, reached, new = targets(), set(), needs(body)
    while new:
        reached |= set(new)
        new = [name for target in new for name in needs(of_target[target]) if name not in reached]
    there = sources(body).union(*(sources(of_target[name]) for name in reached))
    tests = sorted((ROOT / "tests").rglob("*.py"))
    lacking = [(test, other) for test in tests for other in imported(test) if other]
    assert len(lacking) > 1000
    assert not [pair for pair in lacking if pair[1] not in there]


def test_targets_make_no_circle():
    # Bazel refuses to load such a file at all; a circle is an error that names its targets.
    TopologicalSorter({name: needs(body) for name, body in targets().items()}).prepare()
