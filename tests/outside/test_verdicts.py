"""Verdicts on systems as an engineer would set them up: wrong ones, and right but unusual ones.

Every system is simulated in plain NumPy (systems.py) and judged by the command line. The few that
run by default take a second or two each; the others are marked slow.
"""

import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from scipy import stats

from fl_audit.checks.canary_check import CANARY_CHECK_FALSE_ALARM
from tests.outside import less_noise, unusual
from tests.outside.frameworks import FlowerSystem, NVFlareSystem
from tests.outside.right import RIGHT
from tests.outside.systems import Answer, System, ask
from tests.outside.trained_run import TrainedSystem, answer_of_run
from tests.outside.wrong import HALF, UNSEEN, WRONG

QUICK = {
    "three of four presentations lost",
    "all excluded canaries take part",
    "a score file of canaries that never came",
    "a loop",
    "one included canary",
    "no rounds handed over",
    "Flower: three of four presentations lost",
    "Flower",
}

OPEN: dict[str, str] = {}
"""Why some are judged wrongly, by name; a system that is judged rightly must not be listed."""


def _parameters(systems: Mapping[str, object]) -> list:
    return [
        pytest.param(
            name,
            marks=[
                *([] if name in QUICK else [pytest.mark.slow]),
                *([pytest.mark.xfail(reason=OPEN[name], strict=True)] if name in OPEN else []),
            ],
        )
        for name in systems
    ]


def _answers(system: System, folder: Path) -> list[Answer]:
    """The answers to the claim as a point and as a curve, where that is claimed.

    They are for the statistic that proves most, where rounds are handed over.
    """
    arguments = system.write(folder)
    has_rounds = system.way != "scores" and system.listed(system) is not None
    arguments += ["--statistic", "own_rounds"] if has_rounds else []
    told = system.participation(system)
    point = ["--claimed-epsilon", str(system.claim), "--methods", "threshold_valid"]
    with system.kinds():
        answers = [answer_of_run(folder) if system.way == "run" else ask([*arguments, *point])]
        if told is None or not told.get("claim_counts_on_sampling"):
            answers.append(ask([*arguments, "--claimed-mu", str(system.claimed_mu())]))
    return answers


@pytest.mark.parametrize("name", _parameters(WRONG))
def test_a_wrong_system_is_not_consistent(name, tmp_path):
    system = WRONG[name]()
    for found in _answers(system, tmp_path / "audit"):
        if found.outcome == "consistent" and name in UNSEEN:
            assert "not all of the mechanism was checked" in found.text.casefold()
        elif found.outcome == "consistent":
            seen = math.inf if found.detectable is None else found.detectable
            assert system.truth_of_a_client() <= seen < math.inf, found.text


@pytest.mark.parametrize("name", _parameters(RIGHT))
def test_a_right_system_is_not_contradicted_nor_said_to_be_lost(name, tmp_path):
    for found in _answers(RIGHT[name](), tmp_path / "audit"):
        assert found.outcome in ("consistent", "inconclusive"), found.text
        assert found.canary_check != "not_arrived", found.text


WAYS: dict[str, Callable[..., System]] = {
    "log": System,
    "loop": functools.partial(System, way="loop"),
    "cosines": functools.partial(System, way="cosines"),
    "scores": functools.partial(System, way="scores"),
    "flower": FlowerSystem,
    "nvflare": NVFlareSystem,
    "run": TrainedSystem,
}


@pytest.mark.parametrize(
    "way", [pytest.param(w, marks=[] if w == "log" else [pytest.mark.slow]) for w in WAYS]
)
def test_a_wrong_system_could_be_called_consistent_or_contradicted(way, tmp_path):
    """The setting can tell: without that, nothing above would say anything.

    Cosines have a looser null and scores alone do not show arrival, so that with 400 canaries
    neither is consistent.
    """
    right = _answers(WAYS[way](), tmp_path / "right")[-1]
    assert right.outcome == ("inconclusive" if way in ("cosines", "scores") else "consistent")
    for found in _answers(WAYS[way](HALF), tmp_path / "wrong"):
        assert found.outcome == "contradicted"


def test_a_run_and_an_estimate_of_its_folder_agree(tmp_path):
    system = TrainedSystem()
    (folder,) = system.write(tmp_path / "audit")
    of_run = answer_of_run(tmp_path / "audit")
    claim = ["--claimed-epsilon", str(system.claim)]
    with system.kinds():
        found = ask([folder, *claim, "--statistic", "own_rounds", "--methods", "threshold_valid"])
    assert (of_run.outcome, of_run.detectable) == (found.outcome, found.detectable)


def test_quick_and_open_ones_are_in_the_tables():
    assert len(WRONG) >= 68
    assert len(RIGHT) >= 40
    ways = {system().way for system in WRONG.values()}
    assert ways == {"log", "loop", "cosines", "scores", "flower", "nvflare", "run"}
    assert ways == {system().way for system in RIGHT.values()}
    assert {*QUICK, *OPEN} <= {*WRONG, *RIGHT}
    assert not WRONG.keys() & RIGHT.keys()


@pytest.mark.slow
@pytest.mark.parametrize("share_of_noise", ["some", "all"])
@pytest.mark.parametrize("number", range(len(less_noise.CASES)))
def test_less_noise_than_claimed_is_not_consistent_if_it_is_detectable(number, share_of_noise):
    way, kind, is_crowd, share = less_noise.CASES[number]
    share = 1.0 if share_of_noise == "all" else share
    seed = number + 1 + 1000 * (share == 1)
    for claim, truth, found in less_noise.verdicts((way, kind, is_crowd, share), seed):
        assert not less_noise.is_wrong(share, truth, found), (claim, truth)


def rarely(number: int, level: float) -> float:
    """So many of a number or fewer, but for a chance of 1e-7."""
    return float(stats.binom.isf(1e-7, number, level))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 100, 20))
def test_a_claim_that_is_just_true_is_contradicted_no_more_often_than_the_level(first):
    found = [answer for _, answer in unusual.audits(first, first + 20)]
    assert not [answer.text for answer in found if answer.outcome == "refused"]
    lost = [answer for answer in found if answer.canary_check == "not_arrived"]
    assert len(lost) <= rarely(len(found), CANARY_CHECK_FALSE_ALARM)
    contradicted = [answer for answer in found if answer.outcome == "contradicted"]
    assert len(contradicted) <= rarely(len(found), 0.05)
    p_values = [answer.p_value for answer in found if answer.p_value is not None]
    assert sum(p <= 0.2 for p in p_values) <= rarely(len(p_values), 0.2)


def test_the_hundred_set_ups_are_of_all_kinds_and_one_is_audited():
    drawn = unusual.set_ups()
    assert unusual.audited(drawn[1], 1).outcome in ("consistent", "inconclusive")
    assert len(set(drawn)) == 100
    assert {each.way for each in drawn} == set(unusual.WAYS)
    assert {each.mechanism for each in drawn} == set(unusual.MECHANISMS)
    assert {each.pattern for each in drawn} == set(unusual.PATTERNS)
    assert {each.claim for each in drawn} == set(unusual.CLAIMS)
