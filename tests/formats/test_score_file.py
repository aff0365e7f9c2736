"""Files of scores and of counts."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.formats.score_file import (
    ScoreFile,
    read_counts_file,
    read_score_file,
    write_score_file,
)

# Score files: round trips, and one clear line for each way to spoil one.


GOOD = "canary_id,included,score\na,1,0.5\nb,0,-1e-3\n"


def written(tmp_path, text: str | bytes, name: str = "scores.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(tmp_path, text, message, read=read_score_file):
    """Whether a file is refused in one line that names it and says what is wrong."""
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def many() -> ScoreFile:
    rng = np.random.default_rng(0)
    ids = tuple(f"canary, {i}" for i in range(1000))
    return ScoreFile(
        ids, rng.random(1000) < 0.5, rng.normal(size=1000) * 10.0 ** rng.integers(-300, 300, 1000)
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_round_trip_keeps_every_bit(tmp_path, many, suffix):
    path = tmp_path / f"scores.{suffix}"
    write_score_file(path, many)
    read = read_score_file(path)
    assert read.canary_id == many.canary_id
    assert np.array_equal(read.included, many.included)
    assert np.array_equal(read.score, many.score)


@pytest.mark.parametrize("word", ["coins", "fixed_half"])
def test_a_file_may_say_how_it_was_decided_who_takes_part(tmp_path, word):
    text = f"canary_id,included,score, inclusion\na,1,0.5,{word}\nb,0,0.1, {word} \n"
    assert read_score_file(written(tmp_path, text)).inclusion == word


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("canary_id,included,score,inclusion_probability\n", "must hold at least one row"),
        ("canary_id,included,score,score\na,1,0,0\n", "must have one column 'score', got 2"),
        (GOOD + "c,1,high\n", "line 4: score must be a finite number, got 'high'"),
        (GOOD + "c,1,0_5\n", "line 4: score must be a finite number, got '0_5'"),
        (GOOD + "c,1,1e999\n", "line 4: score must be a finite number, got inf"),
        (GOOD + "\n\nc,1,-inf\n", "line 6: score must be a finite number, got -inf"),
        (GOOD + "c,5,x\nd,1,y\n", "line 4: included must be 0 or 1, got '5'"),
        (GOOD + "c,1,x\nd,5,1\n", "line 4: score must be a finite number, got 'x'"),
        (GOOD.encode("utf-16")[:-1], "must be UTF-8 text"),
        (b"canary_id,included,score\na\0,1,2\nb\0,1,x\n", "line 3: score must be a finite"),
    ],
)
def test_refuses_bad_files_in_one_line(tmp_path, text, message):
    refused(tmp_path, text, message)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, many, monkeypatch):
    path = tmp_path / "scores.csv"
    write_score_file(path, many)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_score_file(path, ScoreFile(("x",), np.array([True]), np.array([1.0])))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("ids", "included", "score", "message"),
    [
        ((), [], [], "at least one canary"),
        (("a",), [True, False], [1.0], r"one length, got \(1, 2, 1\)"),
        (("a", "a"), [True, False], [1.0, 2.0], "row 2: canary_id must be unique"),
        (("a", "b"), [True, False], [1.0, np.nan], "row 2: score must be a finite number"),
    ],
)
def test_score_file_refuses_bad_columns(ids, included, score, message):
    with pytest.raises(ValueError, match=message):
        ScoreFile(ids, np.array(included, dtype=bool), np.array(score))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_pairs_are_told_of_whatever_the_order_of_rows(tmp_path, suffix):
    ids, pair = ("a", "b", "c", "d"), ("x", "y", "y", "x")
    included, score = np.array([True, True, False, False]), np.array([0.5, 2.0, 1.0, -1.0])
    path = tmp_path / f"scores.{suffix}"
    write_score_file(path, ScoreFile(ids, included, score, "pairs", pair=pair))
    read = read_score_file(path)
    assert (read.inclusion, read.pair) == ("pairs", pair)
    scores = read.canary_scores()
    assert (scores.included.tolist(), scores.excluded.tolist()) == ([0.5, 2.0], [-1.0, 1.0])
    assert scores.num_coins == 2


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("way", [("fixed_half", 0.5), ("unequal_coins", 0.25)])
def test_ways_of_including_are_told_of(tmp_path, way, suffix):
    path = tmp_path / f"scores.{suffix}"
    write_score_file(path, ScoreFile(("a", "b"), np.array([True, False]), np.array([0.5, 2]), *way))
    read = read_score_file(path)
    scores = read.canary_scores()
    assert (read.inclusion, read.inclusion_probability) == way
    assert (scores.inclusion, scores.inclusion_probability) == way


@pytest.mark.parametrize(
    ("header", "one", "other", "message"),
    [
        # Another word is never taken for coins.
        ("inclusion", "fixed_haf", "fixed_haf", "line 2: inclusion must be a known word, got"),
        ("inclusion", "fixed_half", "Fixed half", "'Fixed half': did you mean 'fixed_half'?"),
        ("inclusion", "coins", "", "line 3: inclusion must be a known word, got ''"),
        ("inclusion", "0.25", "0.25", "got '0.25': known: coins, fixed_half, pairs, "),
        ("inclusion", "fixed_half", "coins", "same in every row, got 'coins'; line 2 has"),
        ("Inclusion", "fixed_half", "fixed_half", "'Inclusion': did you mean 'inclusion'?"),
        ("inclusion,inclusion", "coins,pairs", "coins,pairs", "one column 'inclusion', got 2"),
        # What each way needs.
        ("inclusion", "pairs", "pairs", "needs a column 'pair'"),
        ("inclusion", "unequal_coins", "unequal_coins", "needs a column 'inclusion_probability'"),
        ("inclusion,pair", "pairs,x", "pairs,y", "pair 'x' must be two canaries, one of them"),
        ("inclusion_probability", "0.2", "0.2", "is only for inclusion 'unequal_coins', not for"),
        ("inclusion,inclusion_probability", "coins,0.2", "coins,0.2", "is only for inclusion"),
        (
            "inclusion,inclusion_probability",
            "unequal_coins,0.2",
            "unequal_coins,0.3",
            "line 3: inclusion_probability must be the same in every row",
        ),
        (
            "inclusion,inclusion_probability",
            "unequal_coins,0.5",
            "unequal_coins,0.5",
            "must be a number in (0, 1) other than 0.5",
        ),
    ],
)
def test_ways_of_including_that_do_not_fit_are_refused(tmp_path, header, one, other, message):
    refused(
        tmp_path, f"canary_id,included,score,{header}\na,1,0.5,{one}\nb,0,0.1,{other}\n", message
    )


# Count files: what is read, and one clear line for each way to spoil one.


@pytest.mark.parametrize(
    "text",
    [
        "fp,n0,fn,n1\n1,10,2,20\n0,5,5,5\n",
        "n1,fn,n0,fp\r\n20,2,10,1\r\n5,5,5,0\r\n",
        "fp,n0,fn,n1\n 1, 10, 2, 20\n\n0,5,5,5",
    ],
    ids=["plain", "another order and CRLF", "spaces and a blank line"],
)
def test_reads_a_row_per_base(tmp_path, text):
    counts = read_counts_file(written(tmp_path, text))
    assert counts.fp.tolist() == [1, 0]
    assert counts.n0.tolist() == [10, 5]
    assert counts.fn.tolist() == [2, 5]
    assert counts.n1.tolist() == [20, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fp,n0,fn\n1,2,1\n", "has no column 'n1'"),
        ("fp,n0,fn,n1,fpr\n1,2,1,2,0\n", "unknown column 'fpr': did you mean 'fp'?"),
        ("fp,n0,fn,n1\n", "must hold at least one row below the header, got none"),
        ("", "must start with a header naming fp, n0, fn, n1"),
        ("fp,n0,fn,n1\n1,2,1\n", "line 2: must have 4 fields, got 3"),
        (
            "fp,n0,fn,n1\n1,2,1,2\n1,2,x,2\n",
            "row 2, column fn: must be a whole number from 0 to 999999999, got 'x'",
        ),
        ("fp,n0,fn,n1\n-1,2,1,2\n", "row 1, column fp: must be a whole number from 0 to"),
        ("fp,n0,fn,n1\n1.5,2,1,2\n", "row 1, column fp: must be a whole number from 0 to"),
        (
            "fp,n0,fn,n1\n1,,1,2\n",
            "row 1, column n0: must be a whole number from 0 to 999999999",
        ),
        ("fp,n0,fn,n1\n1,2,3,2\n", "row 1, column fn: must be at most n1, which is 2, got 3"),
        ("fp,n0,fn,n1\n1,99999999999999999999,3,2\n", "row 1, column n0: must be a whole number"),
        (b"\xff", "must be UTF-8 text"),
    ],
)
def test_each_error_of_counts_is_one_line_that_names_the_place(tmp_path, text, message):
    refused(tmp_path, text, message, read_counts_file)
