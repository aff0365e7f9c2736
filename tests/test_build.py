"""The BUILD file names every module; its targets need what they import, and make no circle."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fl_audit"
TARGET = re.compile(r"^py_(?:library|binary)\((.*?)^\)", re.M | re.S)


def targets() -> dict[str, str]:
    """The text of each target of the package, by name."""
    bodies = TARGET.findall((ROOT / "BUILD").read_text())
    return {re.search(r'name = "(\w+)"', body)[1]: body for body in bodies}


def sources(body: str) -> set[Path]:
    """The modules that a target names."""
    patterns = re.findall(r'"(fl_audit/[\w/*]+\.py)"', body.partition("deps =")[0])
    return {path for pattern in patterns for path in ROOT.glob(pattern)}


def imported(module: Path) -> Iterator[Path]:
    """The modules of the package that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fl_audit"):
            for alias in node.names:
                yield file_of(f"{node.module}.{alias.name}") or file_of(node.module)
        elif isinstance(node, ast.Import):
            ours = (alias.name for alias in node.names if alias.name.startswith("fl_audit"))
            yield from map(file_of, ours)


def file_of(module: str) -> Path | None:
    """The file of a module or package; None where the name is none of either."""
    path = ROOT / Path(*module.split("."))
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in found if file.exists()), None)


def test_every_module_is_in_one_target():
    named = [path for body in targets().values() for path in sources(body)]
    assert sorted(named) == sorted(PACKAGE.rglob("*.py"))


def needs(body: str) -> list[str]:
    """The targets that a target says it needs."""
    return re.findall(r'":(\w+)"', body.partition("deps =")[2])


def test_targets_need_what_their_modules_import():
    target_of = {path: name for name, body in targets().items() for path in sources(body)}
    needed = defaultdict(set)
    for path, name in target_of.items():
        needed[name] |= {target_of[other] for other in imported(path)} - {name}
    for name, body in targets().items():
        assert sorted(needs(body)) == sorted(needed[name]), name


def test_targets_make_no_circle():
    # Bazel refuses to load such a file at all; a circle is an error that names its targets.
    TopologicalSorter({name: needs(body) for name, body in targets().items()}).prepare()
