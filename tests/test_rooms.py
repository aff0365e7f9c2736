"""The order of the rooms, which BUILD states, and functions that fit on a screen."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "fl_audit"

ROOT = PACKAGE.parent


class Targets(list):
    """The libraries that BUILD makes, each as its arguments; and its `ROOMS`."""

    def __init__(self) -> None:
        names = {"py_library": lambda **library: self.append(library), "glob": _glob}
        for name in ("package", "licenses", "exports_files", "py_binary", "py_test"):
            names[name] = lambda *_, **__: None
        # Starlark, Bazel's language, is a part of Python.
        exec(compile((ROOT / "BUILD").read_text(), "BUILD", "exec"), names)
        self.rooms: list[list[str]] = names["ROOMS"]


def _glob(patterns: Iterable[str], exclude: Iterable[str] = (), allow_empty: bool = True):
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    assert found or allow_empty, patterns
    without = {path for pattern in exclude for path in ROOT.glob(pattern)}
    return sorted(str(path.relative_to(ROOT)) for path in found - without)


ORDER = Targets().rooms
"""A room imports nothing of a later row, nor of its own row."""

LONGEST_FUNCTION = 60
LONGEST_WITHOUT_DOCSTRING = 25

Function = ast.FunctionDef | ast.AsyncFunctionDef


def room_of(module: Path) -> str:
    first = module.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def imported_rooms(module: Path) -> Iterator[tuple[int, str]]:
    """Line and room of every import of the package, wherever it stands in the module."""
    for node in ast.walk(tree_of(module)):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "fl_audit":
                yield node.lineno, rest.partition(".")[0]


def test_every_room_has_its_place():
    placed = [room for level in ORDER for room in level]
    assert len(placed) == len(set(placed))
    assert {room_of(module) for module in modules()} <= set(placed)


def test_build_has_every_module_once():
    # Bazel reads targets in the order of the file, and each may need earlier ones alone.
    known, modules_named = set(), []
    for library in Targets():
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
        for line, room in imported_rooms(module)
        if room != room_of(module)
        and room in level_of
        and level_of[room] >= level_of[room_of(module)]
    ]
    assert not upwards


def test_no_module_imports_itself_by_way_of_others():
    assert modules_in_circles(imports_when_run) == set()


def test_nor_do_types_and_functions():
    assert modules_in_circles(ast.walk) == set()


def modules_in_circles(nodes: Callable[[ast.AST], Iterable[ast.AST]]) -> set[str]:
    """The modules that import themselves by way of others; what packages import is left out.

    Args:
      nodes: The nodes of a module whose imports are followed.
    """
    graph = {module: set(imported_modules(module, nodes)) for module in modules()}
    return {str(file.relative_to(PACKAGE)) for file in graph if file in reached(graph, file)}


def reached(graph: Mapping[Path, set[Path]], start: Path) -> set[Path]:
    """The modules that a module needs, also by way of others; itself only in a circle."""
    seen, ahead = set(), [start]
    while ahead:
        new = graph[ahead.pop()] - seen
        seen |= new
        ahead.extend(new)
    return seen


def imported_modules(module: Path, nodes: Callable[[ast.AST], Iterable[ast.AST]]) -> Iterator[Path]:
    """The files of the modules that a module imports."""
    for node in nodes(tree_of(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fl_audit"):
            for alias in node.names:
                found = _file(f"{node.module}.{alias.name}") or _file(str(node.module))
                if found is not None and found != module:
                    yield found


def imports_when_run(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those in functions and under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not isinstance(node, Function) and not is_typing:
            yield node
            yield from imports_when_run(node)


@cache
def _file(name: str) -> Path | None:
    path = PACKAGE.parent / Path(*name.split("."))
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in found if file.exists()), None)


def functions(module: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree_of(module)) if isinstance(node, Function))


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


TENSORFLOW = {"tensorflow", "tensorflow_federated", "tensorflow_privacy"}
NAMES_TENSORFLOW = (
    "engines/tff/",
    "engines/ray/worker.py",  # an actor for each engine
    # A model's functions for an engine stand beside each other, and so do a mechanism's.
    "tasks/tf/",
    "tasks/tff_datasets.py",  # serialized tf.train.Example
    "mechanisms/",
)
"""The only places of the package that import TensorFlow, a function's own imports included."""


def imported_packages(module: Path) -> set[str]:
    """The first parts of the names of all that a module imports, wherever in it."""
    packages = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom):
            packages.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
    return packages


def test_tensorflow_is_named_where_an_engine_of_it_is():
    naming = {
        str(module.relative_to(PACKAGE))
        for module in modules()
        if imported_packages(module) & TENSORFLOW
    }
    assert not {name for name in naming if not name.startswith(NAMES_TENSORFLOW)}
    assert {place for place in NAMES_TENSORFLOW if any(n.startswith(place) for n in naming)} == set(
        NAMES_TENSORFLOW
    )


NAMES_JAX = ("engines/jax/", "engines/ray/worker.py", "tasks/jax/")


def test_jax_is_named_where_its_engine_is():
    naming = {
        str(module.relative_to(PACKAGE))
        for module in modules()
        if "jax" in imported_packages(module)
    }
    assert naming
    assert not {name for name in naming if not name.startswith(NAMES_JAX)}


def test_a_run_names_no_engine():
    assert not [
        f"{module.relative_to(PACKAGE)}:{node.lineno}"
        for module in modules()
        if room_of(module) == "run"
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(("fl_audit.engines.tff", "fl_audit.tasks.tf"))
    ]


def test_no_two_files_of_tests_have_one_name():
    # Tests are no package, so that pytest imports each file by its name alone.
    names = [file.name for file in Path(__file__).parent.rglob("test_*.py")]
    assert not {name for name in names if names.count(name) > 1}
