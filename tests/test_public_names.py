"""The public names of packages, and that they cost nothing until they are used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import fl_audit
import fl_audit.training

PACKAGES = [fl_audit, fl_audit.training]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_type_checkers_see_the_names_that_programs_see(package):
    if package is fl_audit.training:
        pytest.importorskip("tensorflow_federated")
    tree = ast.parse(Path(package.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: getattr(importlib.import_module(node.module), alias.name)
        for node in block.body
        for alias in node.names
    }
    assert seen == {name: getattr(package, name) for name in package.__all__}
    assert dir(package) == sorted(seen)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'x'"):
        _ = package.x


@pytest.mark.parametrize("package", ["fl_audit", "fl_audit.training"])
def test_importing_a_package_imports_nothing_else(package):
    heavy = "('numpy', 'scipy', 'tensorflow', 'tensorflow_federated')"
    program = f"import {package}, sys; sys.exit(any(m in sys.modules for m in {heavy}))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
