"""The adapter for NVFlare without NVFlare: answers and aggregator of the same shape (the real one:
examples)."""

import inspect
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_audit.attacks import RoundScorer
from fl_audit.cli import main
from fl_audit.errors import InputError
from fl_audit.nvflare import ScoredAggregator
from fl_audit.report.checks import folder_canary_check, folder_checks
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verification import verify_folder

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


def exported(aggregator: ScoredAggregator) -> dict[str, Any]:
    """The arguments that NVFlare 2.9 writes into a job (`FedJobConfig._get_args`), read again.

    An argument is written if an attribute has its name, with or without an underscore before it,
    and differs from the default; NVFlare writes components as theirs are, here the inner one.
    """
    written = {}
    for name, parameter in inspect.signature(type(aggregator).__init__).parameters.items():
        attributes = vars(aggregator)
        key = name if name in attributes else f"_{name}"
        if name != "aggregator" and attributes.get(key, parameter.default) != parameter.default:
            written[name] = attributes[key]
    return json.loads(json.dumps(written))


def trained(folder, inner: PrivateMean, **settings: Any) -> ScoredAggregator:
    """The aggregator that a server builds from the exported job, after its rounds."""
    wrapped = ScoredAggregator(inner, **exported(scored(inner, folder, ROUNDS, **settings)))
    wrapped.fl_ctx = "a context"
    for number in range(ROUNDS):
        wrapped.reset_stats()
        wrapped.accept_model(site_answer(number))
        wrapped.aggregate_model()
    return wrapped


@pytest.mark.parametrize(("shrunk", "state"), [(1.0, "arrived"), (0.4, "not_arrived")])
def test_an_aggregator_is_audited(tmp_path, shrunk, state):
    trained(tmp_path / "audit", PrivateMean(shrunk), canary_length=CLIP_NORM / DENOMINATOR)
    folder = AuditedFolder(tmp_path / "audit")
    canary_check = folder_canary_check(folder, folder_statistics(folder))
    assert canary_check.state == state
    # About 200 presentations with a mean of about 1.5: the standard error is 0.05.
    assert canary_check.ratio == pytest.approx(shrunk, abs=0.25)
    assert verify_folder(folder.path).findings == []


def test_a_job_has_every_argument(tmp_path):
    numbers = {"canary_length": 0.1, "noise_stddev": 0.2, "norm_bound": 0.3, "repeats": 4}
    settings = {name: np.array(number)[()] for name, number in numbers.items()}
    expected = numbers | {
        "folder": str(tmp_path), "num_rounds": 10, "seed": 3, "canary_norm": 100.0, "count": 400,
        "lost_canaries": "error",
    }  # fmt: skip
    settings["lost_canaries"] = "error"
    assert exported(scored(PrivateMean(), tmp_path, 10, **settings)) == expected
    names = inspect.signature(ScoredAggregator.__init__).parameters
    assert set(expected) == set(names) - {"self", "aggregator"}


def test_the_exported_job_prints_what_the_readme_says(tmp_path, capsys):
    share = CLIP_NORM / DENOMINATOR
    told = {"canary_length": share, "noise_stddev": 0.5 * share, "norm_bound": 400 * share}
    trained(tmp_path / "audit", PrivateMean(), repeats=ROUNDS, **told)
    asked = ["--delta=1e-3", "--methods=threshold_valid", "--verbose"]
    assert main(["estimate", str(tmp_path / "audit"), *asked]) == 0
    numbers = r"[0-9][0-9.,]*"
    printed = re.sub(numbers, "#", " ".join(capsys.readouterr().out.split()))
    readme = (Path(__file__).parent.parent / "examples/nvflare/README.md").read_text()
    for block in (
        r"upper bound .*?zero-out\)",
        r"threat model .*?audited ε ≥ ",
        r"canary check passed: .*?participations\)",
        r"mechanism checks: passed.*?runs\)",
    ):
        (said,) = re.findall(block, readme, re.DOTALL)
        assert re.sub(numbers, "#", " ".join(said.split())) in printed


@pytest.mark.parametrize(("multiplier", "passed"), [(0.5, True), (0.6, False)])
def test_what_is_said_of_its_noise_is_checked(tmp_path, multiplier, passed):
    told = {"noise_stddev": multiplier * CLIP_NORM / DENOMINATOR}
    trained(tmp_path / "audit", PrivateMean(), **told)
    checks = folder_checks(AuditedFolder(tmp_path / "audit"))
    assert checks.passed is passed
    # Sites may order their variables anyhow; they are audited in the order of their names.
    assert json.loads((tmp_path / "audit" / "variables.json").read_text())["sizes"] == [2000, 50]


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


def one_round(wrapped: ScoredAggregator, answer: Answer) -> Answer:
    wrapped.fl_ctx = None
    wrapped.reset_stats()
    wrapped.accept_model(answer)
    return wrapped.aggregate_model()


def test_whole_models_are_not_audited_and_training_goes_on(tmp_path, caplog):
    wrapped = scored(PrivateMean(), tmp_path / "audit", 2)
    for number in range(2):
        answer = site_answer(number)
        answer.params_type = "FULL"
        assert one_round(wrapped, answer).params["a"].shape == (40, 50)
    assert [record.message.count("(DIFF)") for record in caplog.records] == [1]
    assert not (tmp_path / "audit").exists()


class HalfMean(PrivateMean):
    """Releases float16."""

    def aggregate_model(self) -> Answer:
        released = super().aggregate_model()
        return Answer({name: part.astype(np.float16) for name, part in released.params.items()})


def test_float16_is_audited_and_integers_are_left_out_by_name(tmp_path, caplog):
    inner = HalfMean()
    wrapped = scored(inner, tmp_path / "audit", 2)
    for number in range(2):
        answer = site_answer(number)
        answer.params = {
            name: part.astype(np.float16) if part.dtype == np.float32 else part
            for name, part in answer.params.items()
        }
        one_round(wrapped, answer)
    assert RoundScorer.open(tmp_path / "audit").scored_rounds == [1, 2]
    assert wrapped._scorer.pool.dim == 2050
    assert {part.dtype.name for a in inner.answers for part in a.params.values()} == {
        "float16",
        "int64",
    }
    assert [record.message.count("steps (int64)") for record in caplog.records] == [1]
    assert not (tmp_path / "audit" / "faults.txt").exists()


def test_a_server_that_is_started_again_goes_on_and_another_audit_is_left_alone(tmp_path, caplog):
    folder = tmp_path / "audit"
    one_round(scored(PrivateMean(), folder, 2), site_answer(0))
    one_round(scored(PrivateMean(), folder, 2), site_answer(1))
    assert RoundScorer.open(folder).scored_rounds == [1, 2]
    assert "incomplete" not in caplog.text
    before = (folder / "round_cosines.npy").read_bytes()
    one_round(scored(PrivateMean(), folder, 3), site_answer(0))
    assert "must be a new folder, or that of this audit" in caplog.text
    assert (folder / "round_cosines.npy").read_bytes() == before


def test_a_round_that_cannot_be_scored_is_noted_and_keeps_a_verdict_from_being_consistent(tmp_path):
    inner = PrivateMean()
    wrapped = trained(tmp_path / "audit", inner, canary_length=CLIP_NORM / DENOMINATOR)
    answer = site_answer(3)
    answer.params["a"] = answer.params["a"] * np.float32(np.nan)
    released = one_round(wrapped, answer)
    assert np.isnan(released.params["a"]).all()  # what the aggregator makes of it is its own
    folder = AuditedFolder(tmp_path / "audit")
    canary_check = folder_canary_check(folder, folder_statistics(folder))
    assert canary_check.state == "cannot_tell"
    assert "the audit is incomplete, as faults.txt says: 1 fault, the first: a round's scores" in (
        canary_check.reason
    )


class OfKnownSites(PrivateMean):
    """Refuses a client that it does not know, after the first `admitted` canaries of a round."""

    def __init__(self, admitted: int) -> None:
        super().__init__()
        self.admitted = admitted

    def accept_model(self, model: Answer) -> None:
        if len(self.answers) > self.admitted:
            raise ValueError(f"unknown client {model.meta['client_name']}")
        super().accept_model(model)


@pytest.mark.parametrize("choice", ["warn", "error"])
@pytest.mark.parametrize("admitted", [0, 3])
def test_a_round_whose_canaries_are_refused_is_left_out(tmp_path, admitted, choice):
    settings = {"canary_length": CLIP_NORM / DENOMINATOR, "lost_canaries": choice}
    trained(tmp_path / "audit", OfKnownSites(admitted), **settings)
    assert RoundScorer.open(tmp_path / "audit").scored_rounds == []
    faults = (tmp_path / "audit" / "faults.txt").read_text().splitlines()
    assert ["unknown client" in fault for fault in faults] == [True] * ROUNDS


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_rounds": 0},
        {"repeats": 11},
        {"canary_norm": 0.0},
        {"canary_length": float("inf")},
        {"noise_stddev": -1.0},
        {"count": 1},
        {"seed": -1},
    ],
)
def test_wrong_numbers_are_refused_at_once(tmp_path, wrong):
    right = {"folder": str(tmp_path), "num_rounds": 10, "seed": 3, "canary_norm": 1.0}
    with pytest.raises(InputError, match=next(iter(wrong))):
        ScoredAggregator(PrivateMean(), **(right | wrong))


def test_it_needs_no_tensorflow():
    program = "import sys, fl_audit.nvflare; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("choice", ["warn", "error"])
def test_lost_canaries_are_a_sentence_and_end_the_training_if_so_chosen(tmp_path, caplog, choice):
    settings = {"canary_length": CLIP_NORM / DENOMINATOR, "lost_canaries": choice}
    sentence = "the canary check fails in round"
    if choice == "error":
        with pytest.raises(InputError, match=sentence):
            trained(tmp_path / "audit", PrivateMean(shrunk=0.0), **settings)
    else:
        trained(tmp_path / "audit", PrivateMean(shrunk=0.0), **settings)
        assert [line.message.startswith(sentence) for line in caplog.records] == [False, True]
    assert not (tmp_path / "audit" / "faults.txt").exists()
