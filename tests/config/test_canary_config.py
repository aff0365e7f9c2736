"""The table of canaries: which keys go with which kind and source."""

import pytest

from fl_audit.attacks.statistics import RunFacts
from fl_audit.attacks.threat_models import statistics_of
from fl_audit.canaries.tables import coin_probability
from fl_audit.config import Canaries, ExampleCanaries
from fl_audit.config.file import config_to_toml, load_config, parse_config
from fl_audit.errors import InputError
from fl_audit.verdict import chosen_tests

TABLE = {
    "task": {"kind": "digits"},
    "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 0.5, "clip_norm": 1.0},
    "participation": {"kind": "bernoulli", "rounds": 3, "clients_per_round": 10},
}


def config_of(**canaries):
    return parse_config({**TABLE, "canaries": canaries}, "config.toml")


def test_canaries_are_vectors_where_no_kind_is_said():
    assert config_of(count=20).canaries == Canaries(count=20)
    assert config_of(kind="vectors", count=20).canaries == Canaries(count=20)


def test_examples():
    config = config_of(kind="examples", source="mislabelled", count=20, examples_per_canary=2)
    assert config.canaries == ExampleCanaries(source="mislabelled", count=20, examples_per_canary=2)
    assert 'kind = "examples"' in config_to_toml(config)
    logged = statistics_of(config.canaries, config.audit)
    assert [statistic.name for statistic in logged] == [
        "final_loss",
        "loss_difference",
        "white_box",
        "white_box_max",
        "white_box_own_rounds",
    ]
    assert {s.null(RunFacts(config.audit, dim=100)).kind for s in logged} == {"empirical"}


def test_a_path_starts_at_the_config_files_folder(tmp_path):
    config = config_of(kind="examples", source="file", path="own.npz")
    (tmp_path / "config.toml").write_text(config_to_toml(config))
    assert load_config(tmp_path / "config.toml").canaries.path == str(tmp_path / "own.npz")


@pytest.mark.parametrize(
    ("canaries", "message"),
    [
        ({"count": 1}, "count must be at least 2, or 0 for no canaries, got 1"),
        ({"kind": "example", "count": 2}, "`canaries.kind`: unknown 'example'; did you mean 'exam"),
        ({"kind": "examples", "count": 2}, "key `canaries.source` is missing"),
        ({"kind": "examples", "source": "mislabeled", "count": 2}, "did you mean 'mislabelled'?"),
        ({"kind": "examples", "source": "mislabelled"}, "source 'mislabelled' needs count"),
        ({"kind": "examples", "source": "in_distribution", "count": 1}, "`canaries.count`"),
        ({"kind": "examples", "source": "file"}, "source 'file' needs path"),
        (
            {"kind": "examples", "source": "file", "path": "x", "examples_per_canary": 2},
            "source 'file' takes no examples_per_canary",
        ),
        (
            {"kind": "examples", "source": "mislabelled", "count": 2, "path": "x"},
            "path goes with source 'file', not 'mislabelled'",
        ),
        ({"kind": "examples", "source": "file", "path": "x", "family": "gaussian"}, "unknown key"),
    ],
)
def test_keys_that_do_not_fit_are_one_line(canaries, message):
    with pytest.raises(InputError) as caught:
        config_of(**canaries)
    assert "\n" not in str(caught.value)
    assert message in str(caught.value)


def test_a_verdict_by_coins_needs_coins():
    audit = {"claimed_epsilon": 1.0, "verdict_method": "one_run_valid"}
    half = {"count": 20, "inclusion": "fixed_half"}
    with pytest.raises(InputError, match=r"not proven for this inclusion: 'one_run_valid'"):
        parse_config({**TABLE, "canaries": half, "audit": audit}, "config.toml")
    kept = parse_config(
        {**TABLE, "canaries": half, "audit": {**audit, "verdict_method": "all"}}, "config.toml"
    )
    assert chosen_tests(kept, participations=1).methods == ("threshold_valid",)


def test_coins_that_are_not_fair_need_their_probability():
    unequal = Canaries(count=20, inclusion="unequal_coins", inclusion_probability=0.2)
    assert (coin_probability(unequal), coin_probability(Canaries(count=20))) == (0.2, 0.5)
    with pytest.raises(ValueError, match=r"needs inclusion_probability another than 0\.5"):
        Canaries(count=20, inclusion="unequal_coins")
    with pytest.raises(ValueError, match=r"'pairs' needs inclusion_probability 0\.5, got 0\.2"):
        Canaries(count=20, inclusion="pairs", inclusion_probability=0.2)
