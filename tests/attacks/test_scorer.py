"""A server's side: what is scored, what survives a crash, and what is refused."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer, unflatten
from fl_audit.attacks.framework_adapter import CanaryRounds
from fl_audit.checks.measured_rounds import MeasuredRounds
from fl_audit.errors import InputError
from fl_audit.formats.round_chain import read_chain
from fl_audit.formats.round_logs import LoggedTotal
from fl_audit.formats.score_file import read_score_file

POOL = CanaryPool(seed=3, count=40, dim=500)
SHAPES = [np.zeros((40, 12), np.float32), np.zeros(20, np.float32)]


def aggregates(num_rounds: int) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(num_rounds, POOL.dim)).astype(np.float32)


def cosines(target: np.ndarray) -> np.ndarray:
    """By the vectors one by one, in float64."""
    vectors = np.stack([POOL.vector(canary) for canary in range(POOL.count)]).astype(np.float64)
    return vectors @ target / np.linalg.norm(target.astype(np.float64))


def test_scores_are_cosines_over_rounds_and_with_the_models(tmp_path):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, num_rounds=6)
    seen = aggregates(4)
    forms = [seen[0], unflatten(seen[1], SHAPES), 1000 * seen[2].astype(np.float64), seen[3]]
    for number, form in zip((1, 2, 4, 5), forms, strict=True):
        scorer.score_round(number, form)
    assert scorer.scored_rounds == [1, 2, 4, 5]
    initial, final = aggregates(6)[4:]
    paths = scorer.finish(initial=unflatten(initial, SHAPES), final=final)
    expected = np.stack([cosines(aggregate) for aggregate in seen])
    for name, scores in {
        "max": expected.max(axis=0),
        "sum": expected.sum(axis=0),
        "final": cosines(final),
        "final_minus_initial": cosines(final - initial),
    }.items():
        assert paths[name] == tmp_path / "audit" / f"scores_{name}.csv"
        written = read_score_file(paths[name])
        assert written.canary_id == tuple(map(str, range(40)))
        np.testing.assert_array_equal(written.included, POOL.included)
        np.testing.assert_allclose(written.score, scores, atol=1e-6)  # float32, four rounds


def test_a_round_that_is_scored_again_is_replaced(tmp_path):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, num_rounds=3)
    scorer.score_round(1, -aggregates(1)[0])
    scorer = RoundScorer.open(tmp_path / "audit")
    scorer.score_round(1, aggregates(1)[0])
    scored = read_score_file(scorer.finish()["sum"]).score
    np.testing.assert_allclose(scored, cosines(aggregates(1)[0]), atol=1e-6)


class _Killed(BaseException):
    """The end of a process within a round."""


def _kill(*_: object) -> None:
    raise _Killed


@pytest.mark.parametrize(
    "at", [(LoggedTotal, "add"), (MeasuredRounds, "write")], ids=["before its sum", "after it"]
)
def test_a_round_that_a_kill_cuts_short_is_scored_again(tmp_path, monkeypatch, at):
    def score(scorer, numbers):
        for number in numbers:
            scorer.score_round(number, aggregates(3)[number - 1], noise_stddev=1.0)
        return scorer

    whole = score(RoundScorer.create(tmp_path / "whole", POOL, 3), (1, 2, 3))
    scorer = score(RoundScorer.create(tmp_path / "audit", POOL, 3), (1, 2))
    with monkeypatch.context() as patch, pytest.raises(_Killed):
        patch.setattr(*at, _kill)
        score(scorer, (3,))
    (tmp_path / "audit" / ".direction_sum.npy.0a1b2c3d.part").touch()  # as a kill leaves it
    again = RoundScorer.open(tmp_path / "audit")
    assert again.scored_rounds == [1, 2]
    assert score(again, (3,)).scored_rounds == [1, 2, 3]
    files = (*whole.finish().values(), whole.folder.direction_sum, whole.folder.round_lengths)
    again.finish()
    assert {f.name for f in (tmp_path / "audit").iterdir()} == {
        f.name for f in (tmp_path / "whole").iterdir()
    }
    assert all((tmp_path / "audit" / f.name).read_bytes() == f.read_bytes() for f in files)


_SERVER = """
import sys
import numpy as np
from fl_audit.attacks import CanaryPool, RoundScorer
scorer = RoundScorer.create(sys.argv[1], CanaryPool(3, 40, 500), 10_000)
for number in range(1, 10_001):
    scorer.score_round(number, np.random.default_rng(number).normal(size=500))
    print(number, flush=True)
"""


def test_what_is_scored_survives_kill_9(tmp_path):
    argv = [sys.executable, "-c", _SERVER, str(tmp_path / "audit")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        told = [int(server.stdout.readline()) for _ in range(20)]
        server.send_signal(signal.SIGKILL)
        told += [int(line) for line in server.stdout if line.endswith("\n")]
    scorer = RoundScorer.open(tmp_path / "audit")
    assert scorer.pool == POOL
    kept = scorer.scored_rounds
    assert len(told) >= 20
    assert kept[: len(told)] == told
    assert len(kept) <= len(told) + 1  # the one that was written and not yet told
    assert [path.name for path in tmp_path.iterdir()] == ["audit"]
    expected = sum(cosines(np.random.default_rng(number).normal(size=500)) for number in kept)
    scored = read_score_file(scorer.finish()["sum"]).score
    np.testing.assert_allclose(scored, expected, atol=1e-6 * len(kept))


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    RoundScorer.create(tmp_path / "audit", POOL, 2)
    before = {path.name: path.read_bytes() for path in (tmp_path / "audit").iterdir()}
    with pytest.raises(InputError, match="audit: must be a new or empty folder; RoundScorer"):
        RoundScorer.create(tmp_path / "audit", POOL, 2)
    assert {path.name: path.read_bytes() for path in (tmp_path / "audit").iterdir()} == before
    (tmp_path / "empty").mkdir()
    RoundScorer.create(tmp_path / "empty", POOL, 2)


def test_what_cannot_be_scored_is_refused_and_nothing_is_written(tmp_path):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, num_rounds=2)
    good = aggregates(1)[0]
    for number, aggregate, message in (
        (0, good, r"round_number: must be in 1 to 2 \(num_rounds\), got 0"),
        (3, good, r"round_number: must be in 1 to 2 \(num_rounds\), got 3"),
        (2, good[1:], r"aggregate of round 2: must have 500 numbers \(dim\), got 499"),
        (2, good * np.float32(np.nan), "aggregate of round 2: must be finite"),
    ):
        with pytest.raises(InputError, match=message):
            scorer.score_round(number, aggregate)
    assert scorer.scored_rounds == []
    with pytest.raises(InputError, match="audit: no round is scored yet"):
        scorer.finish()
    with pytest.raises(InputError, match="final: is required with initial"):
        scorer.finish(initial=good)
    with pytest.raises(InputError, match="final: must have 500 numbers"):
        scorer.finish(final=good[1:])


def test_rounds_may_be_numbers_of_numpy(tmp_path):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, np.int64(2), [[1]] * POOL.count)
    scorer.score_round(np.int64(1), aggregates(1)[0])
    scorer.score_uploads(np.int32(1), {0: aggregates(1)[0]})
    assert scorer.scored_rounds == [1]


def test_an_audit_that_cannot_be_is_refused_before_a_file_is_written(tmp_path):
    with pytest.raises(InputError, match="num_rounds: must be a whole number, at least 1, got 0"):
        RoundScorer.create(tmp_path / "audit", POOL, 0)
    with pytest.raises(InputError, match=r"num_rounds: must be a whole number, .*, got 10\.0"):
        RoundScorer.create(tmp_path / "audit", POOL, 10.0)
    alike = next(seed for seed in range(100) if _falls_alike(CanaryPool(seed, 2, 9)))
    with pytest.raises(InputError, match="coins of all 2 canaries"):
        RoundScorer.create(tmp_path / "audit", CanaryPool(alike, 2, 9), 5)
    with pytest.raises(InputError, match=r"pool\.json: cannot be read"):
        RoundScorer.open(tmp_path / "audit")
    assert not list(tmp_path.iterdir())


def _falls_alike(pool: CanaryPool) -> bool:
    try:
        return len(set(pool.included)) < 1
    except InputError:
        return True


_WITHOUT_TENSORFLOW = """
import sys
import numpy as np
from fl_audit.cli import main
from fl_audit.attacks import CanaryPool, RoundScorer, unflatten
for family in ("gaussian", "rademacher", "hadamard"):
    pool = CanaryPool(3, 40, 500, family)
    scorer = RoundScorer.create(f"{sys.argv[1]}/{family}", pool, 2)
    scorer.score_round(1, unflatten(pool.vector(1), [np.zeros((5, 100))]))
    scorer.finish(final=np.ones(500))
assert main(["estimate", str(scorer.folder.path), "--delta=1e-3", "--statistic=final"]) == 0
print(sorted({"tensorflow", "tensorflow_federated", "jax", "matplotlib"} & set(sys.modules)))
"""


def test_no_tensorflow(tmp_path):
    argv = [sys.executable, "-c", _WITHOUT_TENSORFLOW, str(tmp_path)]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_second_process_that_opens_an_audit_changes_nothing_of_it(tmp_path, monkeypatch):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, num_rounds=3)
    scorer.score_round(1, aggregates(1)[0])
    seen = []

    def looked_at(original, *arguments):
        before = {path.name: path.read_bytes() for path in (tmp_path / "audit").iterdir()}
        reader = RoundScorer.open(tmp_path / "audit")
        seen.append(reader.scored_rounds)
        assert {p.name: p.read_bytes() for p in (tmp_path / "audit").iterdir()} == before
        return original(*arguments)

    writing = scorer._log.flush  # in the middle of a round
    monkeypatch.setattr(type(scorer._log), "flush", lambda log: looked_at(writing))
    scorer.score_round(2, aggregates(2)[1])
    assert seen == [[1]]
    monkeypatch.undo()
    with scorer.folder.chain.open("ab") as file:
        file.write(b'{"what":"rou')  # in the middle of a line
    looked_at(lambda: None)
    scorer.folder.chain.write_bytes(scorer.folder.chain.read_bytes().removesuffix(b'{"what":"rou'))
    scorer.score_round(3, aggregates(3)[2])
    chain = read_chain(scorer.folder.chain)
    chain.check(scorer.folder.chain)
    assert sorted(chain.rounds) == [1, 2, 3]


_WRITER = """
import sys
import numpy as np
from fl_audit.attacks import RoundScorer
scorer = RoundScorer.open(sys.argv[1])
for number in (2, 3):
    try:
        scorer.score_round(number, np.ones(scorer.pool.dim, np.float32))
        print("scored", flush=True)
    except ValueError as error:
        print(error, flush=True)
    sys.stdin.readline()
"""


def test_a_second_writer_is_refused_until_the_first_has_ended_however_it_did(tmp_path):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, num_rounds=3)
    opened_before = RoundScorer.open(tmp_path / "audit")
    scorer.score_round(1, aggregates(1)[0])
    argv = [sys.executable, "-c", _WRITER, str(tmp_path / "audit")]
    before = scorer.folder.chain.read_bytes()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        refused = writer.stdout.readline()
        assert "audit: another process (number" in refused
        assert scorer.folder.chain.read_bytes() == before
        del scorer
        print(file=writer.stdin, flush=True)
        assert writer.stdout.readline() == "scored\n"
        third = RoundScorer.open(tmp_path / "audit")
        with pytest.raises(InputError, match=f"another process .number {writer.pid}. is using"):
            third.score_round(2, aggregates(2)[1])
        writer.kill()
    third.score_round(2, aggregates(2)[1])
    with pytest.raises(InputError, match="has changed since this RoundScorer opened it"):
        opened_before.score_round(2, aggregates(2)[1])
    chain = read_chain(third.folder.chain)
    chain.check(third.folder.chain)
    assert sorted(chain.rounds) == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"canary_rounds": [[1, 1]] * 40}, "canary_rounds, canary_id '0': round 1 is listed twice"),
        (
            {"canary_rounds": [[1] * bool(coin) for coin in POOL.included]},
            "canary_rounds: .* and 0 excluded canaries have rounds: list for every canary",
        ),
        ({"canary_arms": ["one"] * 40}, "canary_rounds: is required with canary_arms"),
    ],
)
def test_rounds_that_no_reading_takes_are_refused_before_a_file_is_written(
    tmp_path, arguments, message
):
    with pytest.raises(InputError, match=f"^{message}"):
        RoundScorer.create(tmp_path / "audit", POOL, 2, **arguments)
    assert not list(tmp_path.iterdir())


def test_an_adapter_goes_on_with_the_rounds_that_its_canaries_have(tmp_path):
    def scorer(sample_rate, repeats):
        drawn = CanaryRounds.draw(1, POOL.count, 8, sample_rate, repeats)
        return drawn.scorer(tmp_path / "audit", POOL, "warn")

    assert scorer(None, 1).num_rounds == scorer(None, 1).num_rounds == 8
    for sample_rate, repeats in ((None, 2), (0.2, 1)):
        with pytest.raises(InputError, match=r"audit: holds an audit whose canaries have other ro"):
            scorer(sample_rate, repeats)
