"""The examples in docstrings run as written."""

import doctest
import importlib
import pkgutil

import pytest

import fl_audit.estimators

MODULES = [
    "fl_audit.errors",
    *(
        f"fl_audit.estimators.{found.name}"
        for found in pkgutil.iter_modules(fl_audit.estimators.__path__)
    ),
]


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_doctests():
    finder = doctest.DocTestFinder()
    examples = [
        example
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
        for example in test.examples
    ]
    assert len(examples) >= 20
