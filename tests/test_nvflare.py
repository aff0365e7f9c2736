"""The adapter for NVFlare without NVFlare: answers and aggregator of the same shape (the real one:
examples)."""

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.nvflare import ScoredAggregator
from fl_audit.report.arrival import folder_arrival
from fl_audit.report.audited_folder import AuditedFolder
from fl_audit.report.folder_statistics import folder_statistics
from fl_audit.verdict import Claim, ClaimTests, reach_verdict

ROUNDS, NUM_CANARIES, CLIP_NORM, DENOMINATOR = 10, 400, 0.5, 30


@dataclass
class Answer:
    """What is read of an NVFlare `FLModel`."""

    params: dict[str, np.ndarray]
    current_round: int = 0
    params_type: str = "DIFF"
    meta: dict[str, Any] = field(default_factory=lambda: {"client_name": "site-1", "weight": 3})


class PrivateMean:
    """Clips answers, adds noise of 0.5 clip norms to the sum; `shrunk` shortens canaries alone."""

    def __init__(self, shrunk: float = 1.0) -> None:
        self.shrunk = shrunk
        self.fl_ctx: Any = None
        self.answers: list[Answer] = []

    def reset_stats(self) -> None:
        self.answers = []

    def accept_model(self, model: Answer) -> None:
        self.answers.append(model)

    def aggregate_model(self) -> Answer:
        random = np.random.default_rng([7, self.answers[0].current_round])
        total = {"b": np.zeros(50), "a": np.zeros((40, 50))}
        for answer in self.answers:
            norm = np.sqrt(sum(np.sum(np.square(answer.params[name])) for name in total))
            scale = min(1, CLIP_NORM / norm)
            if answer.meta["client_name"].startswith("canary"):
                scale *= self.shrunk
            for name in total:
                total[name] += scale * answer.params[name]
        noised = {n: t + random.normal(0, 0.5 * CLIP_NORM, t.shape) for n, t in total.items()}
        return Answer({n: (t / DENOMINATOR).astype(np.float32) for n, t in noised.items()})


def site_answer(number: int) -> Answer:
    random = np.random.default_rng([8, number])
    moved = {"b": random.normal(size=50), "a": random.normal(size=(40, 50))}
    params = {name: part.astype(np.float32) for name, part in moved.items()}
    return Answer(params | {"steps": np.array([3])}, current_round=number)


def scored(inner: PrivateMean, folder, rounds: int, **settings: Any) -> ScoredAggregator:
    return ScoredAggregator(
        inner,
        folder=str(folder),
        num_rounds=rounds,
        seed=3,
        canary_norm=100.0,
        count=NUM_CANARIES,
        **settings,
    )


def trained(folder, inner: PrivateMean, **settings: Any) -> ScoredAggregator:
    wrapped = scored(inner, folder, ROUNDS, **settings)
    wrapped.fl_ctx = "a context"
    for number in range(ROUNDS):
        wrapped.reset_stats()
        wrapped.accept_model(site_answer(number))
        wrapped.aggregate_model()
    return wrapped


@pytest.mark.parametrize(
    ("shrunk", "state", "outcome"),
    [(1.0, "arrived", "consistent"), (0.4, "not_arrived", "inconclusive")],
)
def test_an_aggregator_is_audited(tmp_path, shrunk, state, outcome):
    inner = PrivateMean(shrunk)
    trained(tmp_path / "audit", inner, canary_length=CLIP_NORM / DENOMINATOR)
    folder = AuditedFolder(tmp_path / "audit")
    found = folder_statistics(folder)
    arrival = folder_arrival(folder, found)
    assert arrival.state == state
    # About 200 presentations with a mean of about 1.5: the standard error is 0.05.
    assert arrival.ratio == pytest.approx(shrunk, abs=0.25)
    # One release with noise 0.5 is (8.4, 1e-3)-private, so that the claim holds.
    tests = ClaimTests([s for s in found if s.name == "own_rounds"], 0.95, ["threshold_valid"])
    assert str(reach_verdict(Claim(9.0, 1e-3), tests, arrival=arrival).outcome) == outcome


def test_canaries_answer_as_sites_do(tmp_path):
    inner = PrivateMean()
    wrapped = trained(tmp_path / "audit", inner, repeats=ROUNDS)
    assert inner.fl_ctx == "a context"
    site, *canaries = inner.answers
    assert len(canaries) == wrapped._scorer.pool.included.sum()
    assert [answer.meta["weight"] for answer in canaries] == [3] * len(canaries)
    assert len({answer.meta["client_name"] for answer in inner.answers}) == len(inner.answers)
    for answer in canaries:
        assert list(answer.params) == list(site.params)
        assert all(answer.params[n].shape == site.params[n].shape for n in site.params)
        assert answer.params["steps"] == 0
        squares = sum(np.sum(np.square(part)) for part in answer.params.values())
        assert np.sqrt(squares) == pytest.approx(100, rel=1e-5)


def test_a_round_without_sites_is_left_alone(tmp_path):
    inner = PrivateMean()
    inner.aggregate_model = lambda: "nothing"
    wrapped = scored(inner, tmp_path / "audit", 2)
    wrapped.fl_ctx = None
    wrapped.reset_stats()
    assert wrapped.aggregate_model() == "nothing"
    assert not (tmp_path / "audit").exists()


def test_whole_models_are_refused(tmp_path):
    wrapped = scored(PrivateMean(), tmp_path, 2)
    wrapped.accept_model(Answer({"a": np.ones(3, np.float32)}, params_type="FULL"))
    with pytest.raises(InputError, match="differences"):
        wrapped.aggregate_model()


def test_it_needs_no_tensorflow():
    program = "import sys, fl_audit.nvflare; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
