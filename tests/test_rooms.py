"""The order of the rooms, which BUILD states, and functions that fit on a screen."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "fl_audit"

ROOT = PACKAGE.parent


@cache
def _found(patterns: tuple[str, ...], exclude: tuple[str, ...]) -> list[str]:
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    without = {path for pattern in exclude for path in ROOT.glob(pattern)}
    return sorted(str(path.relative_to(ROOT)) for path in found - without)


def _glob(patterns: Iterable[str], exclude: Iterable[str] = (), allow_empty: bool = True):
    found = _found(tuple(patterns), tuple(exclude))
    assert found or allow_empty, patterns
    return found


def _evaluated(path: Path) -> tuple[list[dict], list[list[str]]]:
    """The libraries that BUILD makes, each as its arguments; and its `ROOMS`."""
    libraries: list[dict] = []
    names = dict.fromkeys(
        ("package", "licenses", "exports_files", "py_binary", "py_test"), lambda *_, **__: None
    )
    names |= {"py_library": lambda **library: libraries.append(library), "glob": _glob}
    # Starlark, Bazel's language, is a part of Python.
    exec(compile(path.read_text(), path.name, "exec"), names)
    return libraries, names["ROOMS"]


LIBRARIES, ORDER = _evaluated(ROOT / "BUILD")
"""A room imports nothing of a later row, nor of its own row."""

LONGEST_FUNCTION = 60
LONGEST_WITHOUT_DOCSTRING = 25

Function = ast.FunctionDef | ast.AsyncFunctionDef


def room_of(module: Path) -> str:
    first = module.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


@cache
def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def nodes_of(module: Path) -> list[ast.Import | ast.ImportFrom | Function]:
    """The imports and functions of a module, wherever in it."""
    kinds = (ast.Import, ast.ImportFrom, Function)
    return [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, kinds)]


def imported_names(module: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of all that a module imports."""
    for node in nodes_of(module):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def test_every_room_has_its_place():
    placed = [room for level in ORDER for room in level]
    assert len(placed) == len(set(placed))
    assert {room_of(module) for module in modules()} <= set(placed)


def test_build_has_every_module_once():
    # Bazel reads targets in the order of the file, and each may need earlier ones alone.
    known, modules_named = set(), []
    for library in LIBRARIES:
        assert {dep.removeprefix(":") for dep in library.get("deps", ())} <= known
        known.add(library["name"])
        modules_named += library.get("srcs", ())
    places = ("fl_audit", "benchmarks", "experiments")
    there = [str(p.relative_to(ROOT)) for place in places for p in (ROOT / place).rglob("*.py")]
    assert sorted(modules_named) == sorted(there)


def test_the_page_names_rooms_in_their_order():
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("## The packages")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if "|" in line]
    rows = [re.findall(r"`(\w+)`", cell) for cell in cells]
    level_of = {room: level for level, row in enumerate(ORDER) for room in row}
    named = [room for row in rows for room in row]
    assert sorted(named) == sorted(set(level_of) - {"__init__", "__main__"})
    levels = [level_of[row[0]] for row in rows if row]
    assert levels == sorted(levels)


def test_no_arrow_points_upwards():
    level_of = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
    upwards = [
        f"{module.relative_to(PACKAGE)}:{line} imports {room}"
        for module in modules()
        for line, name in imported_names(module)
        if name.startswith("fl_audit.")
        and (room := name.split(".")[1]) != room_of(module)
        and room in level_of
        and level_of[room] >= level_of[room_of(module)]
    ]
    assert not upwards


def test_no_module_imports_itself_by_way_of_others():
    """Nor for types, nor in functions; what packages import is left out."""
    graph = {module: set(imported_modules(module)) for module in modules()}
    assert not [file for file in graph if file in reached(graph, file)]


def reached(graph: Mapping[Path, set[Path]], start: Path) -> set[Path]:
    """The modules that a module needs, also by way of others; itself only in a circle."""
    seen, ahead = set(), [start]
    while ahead:
        new = graph[ahead.pop()] - seen
        seen |= new
        ahead.extend(new)
    return seen


def imported_modules(module: Path) -> Iterator[Path]:
    """The files of the modules that a module imports."""
    for _, name in imported_names(module):
        if name.startswith("fl_audit"):
            found = _file(name) or _file(name.rpartition(".")[0])
            if found is not None and found != module:
                yield found


@cache
def _file(name: str) -> Path | None:
    path = PACKAGE.parent / Path(*name.split("."))
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in found if file.exists()), None)


def functions(module: Path) -> Iterator[Function]:
    return (node for node in nodes_of(module) if isinstance(node, Function))


def length(function: Function) -> int:
    """Lines from `def` to the end, the docstring not counted."""
    first = function.body[0]
    is_docstring = ast.get_docstring(function, clean=False) is not None
    of_docstring = (first.end_lineno or 0) - first.lineno + 1 if is_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - of_docstring


def test_functions_fit_on_a_screen():
    assert not [
        f"{module.relative_to(PACKAGE)}:{function.name}"
        for module in modules()
        for function in functions(module)
        if length(function) > LONGEST_FUNCTION
    ]


def test_long_private_functions_say_what_they_are():
    silent = [
        f"{module.relative_to(PACKAGE)}:{function.name}"
        for module in modules()
        for function in functions(module)
        if length(function) > LONGEST_WITHOUT_DOCSTRING and ast.get_docstring(function) is None
    ]
    assert not silent


NAMES_TENSORFLOW = (
    "engines/tff/",
    # A model's functions for an engine stand beside each other, and so do a mechanism's.
    "tasks/tf/",
    "tasks/tff_datasets.py",  # serialized tf.train.Example
    "mechanisms/",
)
"""The only places of the package that import TensorFlow, a function's own imports included."""


def importing(*packages: str) -> set[str]:
    """The modules that import one of these packages, wherever in them."""
    return {
        str(module.relative_to(PACKAGE))
        for module in modules()
        if {name.partition(".")[0] for _, name in imported_names(module)} & {*packages}
    }


def test_tensorflow_is_named_where_an_engine_of_it_is():
    naming = importing("tensorflow", "tensorflow_federated", "tensorflow_privacy")
    assert not {name for name in naming if not name.startswith(NAMES_TENSORFLOW)}
    assert {place for place in NAMES_TENSORFLOW if any(n.startswith(place) for n in naming)} == set(
        NAMES_TENSORFLOW
    )


def test_jax_is_named_where_its_engine_is():
    naming = importing("jax")
    assert naming
    assert not {name for name in naming if not name.startswith(("engines/jax/", "tasks/jax/"))}


def test_a_run_names_no_engine():
    assert not [
        f"{module.relative_to(PACKAGE)}:{line}"
        for module in modules()
        if room_of(module) == "run"
        for line, name in imported_names(module)
        if name.startswith(("fl_audit.engines.tff", "fl_audit.tasks.tf"))
    ]


def test_no_two_files_of_tests_have_one_name():
    # Tests are no package, so that pytest imports each file by its name alone.
    names = [file.name for file in Path(__file__).parent.rglob("test_*.py")]
    assert not {name for name in names if names.count(name) > 1}
