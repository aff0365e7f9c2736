"""A grid of two patterns, two noises and two seeds whose canaries participate equally often."""

import itertools

import pytest

from fl_audit.cli import main
from fl_audit.comparison import compare, render_comparison
from fl_audit.comparison.order import beyond_noise, compared_statistic, groups_apart
from tests.small_configs import TINY_RUN

PATTERNS = {"shuffle": ["shuffle"], "poisson": ["bernoulli", "repeats"]}
KEYS = ("participation.kind", "participation.canaries")


@pytest.mark.slow
@pytest.mark.tff
def test_the_first_sentence_has_accountings_order_where_intervals_separate(tmp_path):
    config = tmp_path / "config.toml"
    text = TINY_RUN.replace("count = 8", 'count = 300\nmax_per_round = 300\nfamily = "hadamard"')
    config.write_text(text.replace("rounds = 4", "rounds = 12").replace("[8]", "[64]"))
    folders = []
    for (name, values), noise, seed in itertools.product(PATTERNS.items(), (0.3, 1.0), (1, 2)):
        changes = {
            "mechanism.noise_multiplier": noise,
            "seed": seed,
            **dict(zip(KEYS, values, strict=False)),
        }
        folders.append(tmp_path / f"{name}_{noise}_{seed}")
        words = [word for item in changes.items() for word in ("--set", "{}={}".format(*item))]
        assert main(["run", str(config), "--out", str(folders[-1]), *words]) == 0
    comparison = compare(folders)
    assert [len(setting.runs) for setting in comparison.settings] == [2] * 4
    groups = groups_apart(comparison.settings, compared_statistic(comparison))
    limits = [group.accounting for group in groups]
    assert all(less[1] < more[0] for less, more in itertools.pairwise(limits)), limits
    assert len(groups) > 1  # by accounting 2.5 and 15.2: the noises lie apart
    said = beyond_noise(comparison)
    assert f'<p class="sentence">{said.split(" (")[0]}' in render_comparison(comparison)
    places = [said.index(group.names) for group in groups]
    assert places == sorted(places)
    tied = any(len(group.settings) > 1 for group in groups)
    assert ("it cannot tell" in said) == tied
    assert "accounting" not in said  # which is named only where it has another order
