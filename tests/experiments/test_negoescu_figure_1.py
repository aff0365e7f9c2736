"""Figure 1 of Negoescu et al. (2024): how its picture tells the ways of training apart."""

import numpy as np

from experiments.negoescu2024_figure_1.run import Strategy, looks

NAMES = (
    "1 epoch",
    "5 epochs",
    "DP-SGD, ε = 1",
    "DP-SGD, ε = 3",
    "DP-SGD, ε = 1, 32 micro-batches",
    "DP-SGD, ε = 3, 32 micro-batches",
)


def test_a_family_has_a_hue_and_a_marker_and_no_two_ways_look_alike():
    values = np.array([0.5])
    ways = [Strategy(name, name.startswith("DP-SGD"), values, values, values) for name in NAMES]
    found = looks(ways)
    assert [marker for _, marker in found] == ["o", "o", "s", "s", "^", "^"]
    assert len(set(found)) == len(NAMES)
    strongest = [int(np.argmax(colour[:3])) for colour, _ in found]
    assert strongest == [0, 0, 2, 2, 1, 1]  # orange, blue, green
    assert looks(ways[:2])[0] == found[0]  # whatever stands beside them
