"""Programs of experiments are tested in `make test-all`; only what pages name, in `make test`."""

import logging
import sys
from pathlib import Path

import pytest

# `experiments` is a folder of scripts, installed nowhere.
sys.path.append(str(Path(__file__).parents[2]))

QUICK = ("test_papers_index", "test_printed_programs", "test_shipped_configs")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem not in QUICK:
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def logging_as_before():
    """Programs that turn warnings off do so for the rest of a process."""
    yield
    logging.disable(logging.NOTSET)
