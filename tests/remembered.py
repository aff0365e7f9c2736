"""What reports compute of the same arguments once a session, and pictures only where they are seen.

A run's report takes seconds: its bounds, its verdict, what accounting gives, and eight pictures.
Most tests that write one report on the same scores as another, and change what else a folder holds.
"""

import functools
import importlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest
from matplotlib.backends.backend_svg import FigureCanvasSVG

ASKED_OFTEN = (
    ("fl_audit.report.statistics", "estimate"),
    ("fl_audit.report.build", "reach_verdict"),
    ("fl_audit.report.build", "upper_bounds"),
)
"""Functions of values alone, and where reports call them."""

DRAWN = (
    *(
        "commands/test_mcmc_command.py::test_a_page_of_chains",
        "commands/test_strange_names",
        "comparison/test_comparison",
        "comparison/test_patterns",
        "pipeline/test_attack",
    ),
    "engines/ray/test_killed_driver",  # verifies pages that a program of its own has drawn
    *("report/test_attack_page", "report/test_chart", "report/test_pages"),
    "report/test_write.py::test_the_",
)
"""Tests that look at pictures, by the beginnings of their paths."""


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that keeps what it made of arguments; those that have no bytes are not kept."""
    made: dict[bytes, Any] = {}

    @functools.wraps(function)
    def asked(*arguments: Any, **named: Any) -> Any:
        try:
            key = pickle.dumps((arguments, named))
        except (pickle.PicklingError, AttributeError, TypeError):
            return function(*arguments, **named)
        if key not in made:
            made[key] = function(*arguments, **named)
        return made[key]

    return asked


def not_drawn(canvas: FigureCanvasSVG, file: IO[str], **_: Any) -> None:
    """In place of a picture, no lines."""
    del canvas
    file.write("<svg></svg>")


@contextmanager
def quick_reports(drawn: Callable[[], bool]) -> Iterator[None]:
    """Within it each function of `ASKED_OFTEN` keeps what it makes, and only some pictures are."""
    drawing = FigureCanvasSVG.print_svg

    def print_svg(*arguments: Any, **named: Any) -> None:
        (drawing if drawn() else not_drawn)(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        for module, name in ASKED_OFTEN:
            found = importlib.import_module(module)
            patch.setattr(found, name, remembered(getattr(found, name)))
        patch.setattr(FigureCanvasSVG, "print_svg", print_svg)
        yield
