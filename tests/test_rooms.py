"""The order of the rooms, and functions that fit on a screen (docs/architecture.md)."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "fl_audit"

ORDER = (
    (
        "array_types",
        "cores",
        "errors",
        "memory",
        "number_words",
        "progress",
        "public_names",
        "seeds",
        "version",
    ),
    ("extras", "inner_products"),
    ("estimators",),
    ("membership",),
    ("formats",),
    ("kinds",),
    ("accounting",),
    ("canaries",),
    ("participation",),
    ("mechanisms",),
    ("tasks",),
    ("mechanism_checks",),
    ("attacks",),
    ("config", "flower", "nvflare"),
    ("verdict",),
    ("training",),
    ("report",),
    ("comparison", "planning"),
    ("pipeline",),
    ("sweeps",),
    ("commands",),
    ("cli", "__init__"),
    ("__main__",),
)
"""A room imports nothing of a later one, nor of one beside it."""

LONGEST_FUNCTION = 60
LONGEST_WITHOUT_DOCSTRING = 25

Function = ast.FunctionDef | ast.AsyncFunctionDef


def room_of(module: Path) -> str:
    first = module.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported_rooms(module: Path) -> Iterator[tuple[int, str]]:
    """Line and room of every import of the package, wherever it stands in the module."""
    for node in ast.walk(ast.parse(module.read_text())):
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
    graph = {module: set(imported_modules(module)) for module in modules()}
    while free := [module for module, needs in graph.items() if not needs & graph.keys()]:
        for module in free:
            del graph[module]
    assert not [str(module.relative_to(PACKAGE)) for module in graph]


def imported_modules(module: Path) -> Iterator[Path]:
    """The files of the imports that run when a module is imported, packages' own left out."""
    for node in _run_at_import(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fl_audit"):
            for alias in node.names:
                found = _file(f"{node.module}.{alias.name}") or _file(str(node.module))
                if found is not None and found != module:
                    yield found


def _run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those in functions and under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not isinstance(node, Function) and not is_typing:
            yield node
            yield from _run_at_import(node)


def _file(name: str) -> Path | None:
    path = PACKAGE.parent / Path(*name.split("."))
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in found if file.exists()), None)


def functions(module: Path) -> Iterator[Function]:
    tree = ast.parse(module.read_text())
    return (node for node in ast.walk(tree) if isinstance(node, Function))


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
