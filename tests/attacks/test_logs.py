"""Folders that another system writes."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.attacks.log_scores import score_log
from fl_audit.attacks.logs import hypergeometric_p_value, read_log
from fl_audit.canaries.pool import read_pool
from fl_audit.cli import main
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder

POOL = CanaryPool(seed=3, count=40, dim=500, family="gaussian")
SEEN = np.random.default_rng(5).normal(size=(3, POOL.dim)).astype(np.float32)


@pytest.fixture
def folder(tmp_path) -> LogFolder:
    """As docs/logs.md says, by hand."""
    made = LogFolder(tmp_path / "log")
    made.aggregates.mkdir(parents=True)
    fields = {"format_version": 2, "family": "gaussian", "seed": 3, "count": 40, "dim": 500}
    made.pool.write_text(json.dumps(fields))
    np.save(made.aggregates / "round_000001.npy", SEEN[0])
    np.save(made.aggregates / "round_2.npy", SEEN[1].astype(np.float64).reshape(50, 10))
    np.save(made.aggregates / "round_10.npy", SEEN[2])
    (made.aggregates / ".round_11.npy.part").write_bytes(b"being written")
    return made


def test_a_folder_of_aggregates_scores_as_the_class_does(folder, tmp_path):
    gone_through = []

    def progress(paths):
        for path in paths:
            gone_through.append(path.name)
            yield path

    scorer = RoundScorer.create(tmp_path / "audit", POOL, num_rounds=10)
    for number, aggregate in zip((1, 2, 10), SEEN, strict=True):
        scorer.score_round(number, aggregate)
    before = sorted(folder.path.rglob("*"))
    scored = score_log(read_log(folder, progress))
    live = score_log(read_log(scorer.folder, progress))
    assert sorted(folder.path.rglob("*")) == before
    assert gone_through == ["round_000001.npy", "round_2.npy", "round_10.npy"]
    assert scored.pool == live.pool == POOL
    assert scored.num_rounds == live.num_rounds == 3
    assert set(scored.scores) == {"max", "sum"}
    for name, scores in scored.scores.items():
        np.testing.assert_array_equal(scores.score, live.scores[name].score)
        np.testing.assert_array_equal(scores.included, POOL.included)


def _canaries(rows):
    return lambda folder: folder.canaries.write_text("canary_id,included\n" + "\n".join(rows))


def _aggregate(name, array):
    return lambda folder: np.save(folder.aggregates / name, array)


def _file(name):
    return lambda folder: (folder.path / name).write_bytes(b"")


def _listed(header, more):
    rows = [f"{canary},{canary % 2}" + f",{more}" * bool(more) for canary in range(40)]
    return lambda folder: folder.canaries.write_text("\n".join([header, *rows]))


EACH = [f"{canary},{canary % 2}" for canary in range(40)]
BAD = [
    (lambda folder: folder.pool.unlink(), "pool.json: cannot be read"),
    (_aggregate("round_3.npy", SEEN[0][:-1]), "round_3.npy: must have 500 numbers .dim., got 499"),
    (_aggregate("round_3.npy", SEEN[0] * np.inf), "round_3.npy: must be finite in float32"),
    (_aggregate("round_3.npy", SEEN[0].astype(int)), "round_3.npy: must be float32 or float64"),
    (_aggregate("round_01.npy", SEEN[0]), "round_01.npy: is round 1 again, after round_000001.npy"),
    (_aggregate("aggregate3.npy", SEEN[0]), "aggregate3.npy: must be named round_NUMBER.npy"),
    (_aggregate("round_000000.npy", SEEN[0]), "round_000000.npy: must be.*; rounds count from 1"),
    (
        lambda folder: (folder.aggregates / "round_3.npy").write_bytes(b"\x93NUMPY"),
        "round_3.npy: is not an NPY file",
    ),
    (
        lambda folder: np.savez((folder.aggregates / "round_3.npy").open("wb"), a=SEEN[0]),
        "round_3.npy: is not an NPY file: is an NPZ file, must be one array",
    ),
    (
        lambda folder: np.save(folder.final, np.array([{}], dtype=object)),
        "final.npy: is not an NPY file: holds Python objects",
    ),
    (_canaries(EACH[:-1]), "canaries.csv: must list canaries 0 to 39 of pool.json.*got 39 rows"),
    (
        lambda folder: folder.canaries.write_text(
            "\n".join(
                ["canary_id,included,rounds", *(f"{one},{'2 3' * int(one[-1])}" for one in EACH)]
            )
        ),
        "canaries.csv: 20 included and 0 excluded canaries have rounds: list for every canary,",
    ),
    (_canaries([*EACH, "5,1"]), "canaries.csv, row 41: canary_id '5' is there twice"),
    (_canaries([*EACH[:-1], "39,yes"]), "canaries.csv, row 40: included must be 0 or 1, got 'yes'"),
    (_file("canary.csv"), "log: file 'canary.csv': did you mean 'canaries.csv'?"),
    (_file("round-lengths.npy"), "file 'round-lengths.npy': did you mean 'round_lengths.npy'?"),
    (_file("Final.npy"), "file 'Final.npy': did you mean 'final.npy'?"),
    (_listed("canary_id,included,round", "1"), "column 'round': did you mean 'rounds'?"),
    (_listed("canary_id,included,included", "0"), "must have one column 'included', got 2"),
    (_listed("canary_id,includes", ""), "has no column 'included': did you mean 'includes'?"),
    (_listed("canary_id,included,rounds", "0"), "canary_id '0': rounds must be whole numbers"),
    (
        lambda folder: np.save(folder.round_cosines, np.zeros((3, 41), np.float32)),
        r"round_cosines.npy: holds float32 of shape \(3, 41\), must be .* \(rounds, 40\)",
    ),
]


@pytest.mark.parametrize(("spoil", "message"), BAD)
def test_a_bad_log_is_one_clear_line(folder, spoil, message):
    spoil(folder)
    with pytest.raises(InputError, match=message) as refused:
        score_log(read_log(folder, iter))
    assert "\n" not in str(refused.value)


def test_a_log_that_shows_nothing_is_refused(folder):
    for path in folder.aggregates.iterdir():
        path.unlink()
    with pytest.raises(InputError, match="shows nothing to score: needs aggregates/round_000001"):
        score_log(read_log(folder, iter))


def test_files_are_read_once_however_many_ask(folder):
    gone_through = []

    def progress(paths):
        gone_through.extend(path.name for path in paths)
        return iter(paths)

    log = read_log(folder, progress)
    first = score_log(log).scores["max"].score
    rows = list(log.cosines.numbered_rows())
    assert [number for number, _ in rows] == [0, 1, 9]
    np.testing.assert_array_equal(np.max([row for _, row in rows], axis=0), first)
    assert gone_through == ["round_000001.npy", "round_2.npy", "round_10.npy"]


# Whether who has rounds knows the coins, against SciPy's hypergeometric law.


@pytest.mark.parametrize(
    ("total", "included", "drawn", "observed"),
    [(40, 20, 20, 20), (40, 20, 20, 10), (200, 99, 120, 70), (30, 30, 5, 5), (2000, 990, 7, 0)],
)
def test_the_chance_is_twice_the_smaller_hypergeometric_tail(total, included, drawn, observed):
    distribution = stats.hypergeom(total, included, drawn)
    expected = 2 * min(distribution.cdf(observed), distribution.sf(observed - 1))
    assert hypergeometric_p_value(total, included, drawn, observed) == pytest.approx(
        expected, rel=1e-9
    )


# The examples of docs/logs.md, run as they stand there.


TEXT = (Path(__file__).parent.parent.parent / "docs" / "logs.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Path:
    """Where the Python of the page has run, from top to bottom."""
    served = tmp_path_factory.mktemp("doc")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(served)
        names: dict[str, object] = {}
        for block in blocks("python"):
            exec(compile(block, "docs/logs.md", "exec"), names)
    return served


def test_the_server_scored_every_round(served):
    scorer = RoundScorer.open(served / "audit_log")
    assert scorer.scored_rounds == list(range(1, 31))
    assert {path.name for path in (served / "audit_log").glob("scores_*.csv")} == {
        f"scores_{name}.csv" for name in ("final", "final_minus_initial", "max", "sum")
    }


def test_the_folder_by_hand_is_of_the_same_pool(served):
    written = read_pool(served / "log" / "pool.json")
    assert written == read_pool(served / "audit_log" / "pool.json")
    (line,) = re.findall(r'`(\{"format_version".*?\})`', TEXT)
    assert written == CanaryPool(**{k: v for k, v in json.loads(line).items() if k[:6] != "format"})


def test_the_commands_work(served, monkeypatch, capsys):
    monkeypatch.chdir(served)
    commands = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(commands) == 3
    for command in commands:
        program, *argv = shlex.split(command)
        assert program == "fl-audit"
        # The first prints all methods; the others are here for what else they say.
        argv += ["--methods=threshold_valid"] * (command != commands[0])
        # 3: a canary that takes part in every third round, under little noise, is found.
        assert main(argv) in ((0, 3) if "--claimed-epsilon" in argv else (0,))
        assert "max" in capsys.readouterr().out
