"""The checks in a loop of one's own, and the loop of docs/checks.md as it stands there."""

import re
from pathlib import Path

import numpy as np
import pytest

from fl_audit.checks import AggregateLog, MechanismWatch, check_aggregates, measure
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_logs import mode_after
from tests.checks.conftest import CLIP_NORM, ROUNDS, SIZES, STDDEV, aggregates_of, signal

DOCUMENT = Path(__file__).parents[2] / "docs" / "checks.md"


def test_the_same_as_of_a_run():
    random = np.random.default_rng(1)
    vectors = signal(random) + random.normal(0, STDDEV, (ROUNDS, sum(SIZES)))
    watch = MechanismWatch(SIZES)
    reused = np.empty(sum(SIZES), np.float32)
    for vector in vectors:
        reused[:] = vector  # a buffer that the loop writes on
        watch.see_round(reused, noise_stddev=STDDEV, norm_bound=CLIP_NORM)
    assert watch.checks() == check_aggregates(aggregates_of(vectors))


def test_a_log_on_disk_gives_the_same_checks(tmp_path):
    random = np.random.default_rng(2)
    vectors = random.normal(0, STDDEV, (ROUNDS, sum(SIZES))).astype(np.float32)
    in_memory = MechanismWatch(SIZES)
    log = AggregateLog.opened("w+", RunFolder(tmp_path), ROUNDS + 1, SIZES)
    on_disk = MechanismWatch(SIZES, log)
    for vector in vectors:
        for watch in (in_memory, on_disk):
            watch.see_round(vector, noise_stddev=STDDEV, norm_bound=CLIP_NORM)
    assert on_disk.checks() == in_memory.checks()


def test_who_goes_on_with_a_log_writes_behind_it_and_has_no_checks(tmp_path):
    random = np.random.default_rng(3)
    vectors = random.normal(0, STDDEV, (2, sum(SIZES))).astype(np.float32)
    for completed, vector in enumerate(vectors):
        log = AggregateLog.opened(mode_after(completed), RunFolder(tmp_path), 2, SIZES)
        watch = MechanismWatch(SIZES, log, completed)
        watch.see_round(vector, noise_stddev=STDDEV, norm_bound=CLIP_NORM)
        log.flush()
    np.testing.assert_array_equal(log.measured()[1], measure(vectors[1], None, SIZES))
    with pytest.raises(InputError, match="every round before the checks, including the first 1"):
        watch.checks()


def test_the_loop_of_the_document(capsys):
    text = DOCUMENT.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(compile(code, "docs/checks.md", "exec"), {})
    printed = re.search(r"prints\n\n((?:    .*\n)+)", text).group(1)
    assert capsys.readouterr().out == printed.replace("    ", "")


@pytest.mark.parametrize(
    ("shape", "stddev", "norm_bound", "message"),
    [
        (7, 1.0, 1.0, r"aggregate: must be of shape \(4001,\), got \(7,\)"),
        (4001, -1.0, 1.0, "noise_stddev: must be a number, at least 0, got -1.0"),
        (4001, 1.0, float("inf"), "norm_bound: must be a number, at least 0, got inf"),
        (4001, float("nan"), 1.0, "noise_stddev: must be a number"),
    ],
)
def test_what_cannot_be_is_refused(shape, stddev, norm_bound, message):
    with pytest.raises(InputError, match=message):
        MechanismWatch(SIZES).see_round(
            np.zeros(shape, np.float32), noise_stddev=stddev, norm_bound=norm_bound
        )


# What is measured of an aggregate, and its log.


LOGGED_SIZES = (5, 1_500_000, 1)


def test_measures_every_variable_in_float64():
    random = np.random.default_rng(1)
    vector, last = random.normal(size=(2, sum(LOGGED_SIZES))).astype(np.float32)
    found = measure(vector, last, LOGGED_SIZES)
    parts = np.split(vector.astype(np.float64), np.cumsum(LOGGED_SIZES)[:-1])
    others = np.split(last.astype(np.float64), np.cumsum(LOGGED_SIZES)[:-1])
    for row, part, other in zip(found, parts, others, strict=True):
        np.testing.assert_allclose(row, [np.sum(part * part), np.sum(part * other)], rtol=1e-10)


def test_a_log_goes_on_where_it_was(tmp_path):
    folder, sizes = RunFolder(tmp_path), (3, 1)
    first = AggregateLog.opened("w+", folder, 3, sizes)
    noise = np.arange(first.noise().shape[1], dtype=np.float32)
    first.write_round(0, np.array([[1.0, np.nan], [2.0, np.nan]]), noise)
    first.flush()
    second = AggregateLog.opened("r+", folder, 3, sizes)
    second.write_round(1, np.array([[3.0, 4.0], [5.0, 6.0]]), 2 * noise)
    second.flush()
    log = AggregateLog.opened("r", folder, 3, sizes)
    np.testing.assert_array_equal(log.measured()[:2, :, 0], [[1, 2], [3, 5]])
    np.testing.assert_array_equal(log.noise()[:2], [noise, 2 * noise])
    assert np.isnan(log.measured()[2]).all() and np.isnan(log.noise()[2]).all()


@pytest.mark.parametrize("name", ["aggregates.npy", "round_noise.npy"])
@pytest.mark.parametrize("shape", [(2, 2, 2), (3, 1, 2), (3, 2)])
def test_a_log_of_another_run_is_refused(tmp_path, shape, name):
    AggregateLog.opened("w+", RunFolder(tmp_path), 3, (3, 1)).flush()
    np.save(tmp_path / name, np.zeros(shape))
    with pytest.raises(InputError, match=rf"{name}: holds float64 of shape .*, must be"):
        AggregateLog.opened("r+", RunFolder(tmp_path), 3, (3, 1))


@pytest.mark.parametrize(
    ("name", "what"), [("aggregates.npy", "aggregates"), ("round_noise.npy", "noise")]
)
def test_what_is_no_log_is_refused(tmp_path, name, what):
    AggregateLog.opened("w+", RunFolder(tmp_path), 3, (3, 1)).flush()
    path = tmp_path / name
    path.unlink()
    with pytest.raises(InputError, match=rf"{name}: is not a log of {what}"):
        AggregateLog.opened("r", RunFolder(tmp_path), 3, (3, 1))
    path.write_bytes(b"\x93NUMPY\x01")
    with pytest.raises(InputError, match=rf"{name}: is not a log of {what}"):
        AggregateLog.opened("r", RunFolder(tmp_path), 3, (3, 1))
