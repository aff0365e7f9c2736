"""Observers are told of a run's start, of its rounds and of its end, whatever ends it."""

import pytest

from fl_audit.errors import InputError
from fl_audit.run.observers import RoundObserver
from fl_audit.run.train import told


class Listener(RoundObserver):
    def __init__(self, heard, name):
        self.heard, self.name = heard, name

    def run_started(self, run):
        self.heard.append((self.name, run))

    def run_ended(self, *, finished):
        self.heard.append((self.name, finished))


def test_everybody_hears_start_and_end():
    heard = []
    with told([Listener(heard, "a"), Listener(heard, "b"), RoundObserver()], "run"):
        heard.append("rounds")
    assert heard == [("a", "run"), ("b", "run"), "rounds", ("b", True), ("a", True)]


def test_an_interrupted_run_ends_unfinished():
    heard = []
    with pytest.raises(KeyboardInterrupt), told([Listener(heard, "a")], "run"):
        raise KeyboardInterrupt
    assert heard[-1] == ("a", False)


def test_who_started_also_ends_where_another_cannot_start():
    heard = []

    class Refusing(RoundObserver):
        def run_started(self, run):
            raise InputError("no")

    with pytest.raises(InputError), told([Listener(heard, "a"), Refusing()], "run"):
        raise AssertionError
    assert heard == [("a", "run"), ("a", False)]
