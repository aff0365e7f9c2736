"""What differs beyond noise: settings whose intervals do not overlap."""

from types import SimpleNamespace

from fl_audit.comparison.order import Group, _sentence, beyond_noise, groups_apart
from fl_audit.comparison.settings import Setting


def setting(label, *intervals):
    runs = tuple(SimpleNamespace(interval=lambda *_, ends=ends: ends) for ends in intervals)
    return Setting(label, None, label, {}, runs)


def test_overlapping_intervals_are_one_group():
    settings = [
        setting("much", (9.0, 11.0)),
        setting("little", (1.0, 2.0), (1.5, 3.0)),
        setting("some", (2.5, 4.0)),
        setting("unknown", None),
    ]
    found = groups_apart(settings, "max")
    assert found == [Group(("little", "some"), 1.0, 4.0), Group(("much",), 9.0, 11.0)]
    assert "“little” and “some” (1.00 … 4.00); “much” (9.00 … 11.0)." in _sentence("Max", found)
    assert "no setting leaks more" in _sentence("Max", found[:1])


def test_one_interval_is_no_comparison():
    runs = [SimpleNamespace(report=SimpleNamespace(statistics={}))]
    alone = SimpleNamespace(statistics=("max",), runs=runs, settings=[setting("a", (1.0, 2.0))])
    assert beyond_noise(alone) == ""
