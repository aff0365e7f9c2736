"""The public names of the package, and that they cost nothing until they are used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import fl_audit


def test_the_names_are_listed_once_and_in_order():
    assert dir(fl_audit) == sorted(set(fl_audit.__all__))


def test_type_checkers_see_the_names_that_programs_see():
    tree = ast.parse(Path(fl_audit.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: getattr(importlib.import_module(node.module), alias.name)
        for node in block.body
        for alias in node.names
    }
    assert seen == {name: getattr(fl_audit, name) for name in fl_audit.__all__}


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(fl_audit, "estimat")


def test_importing_the_package_imports_nothing_else():
    program = "import fl_audit, sys; sys.exit(any(m in sys.modules for m in ('numpy', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
