"""The checks in a loop of one's own, and the loop of docs/checks.md as it stands there."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.mechanism_checks import AggregateLog, MechanismWatch, check_aggregates, measure
from fl_audit.mechanism_checks.coordinates import CoordinateLengths, add_squares
from tests.mechanism_checks.conftest import CLIP_NORM, ROUNDS, SIZES, STDDEV, aggregates_of, signal

DOCUMENT = Path(__file__).parents[2] / "docs" / "checks.md"


def test_the_same_as_of_a_run():
    random = np.random.default_rng(1)
    vectors = signal(random) + random.normal(0, STDDEV, (ROUNDS, sum(SIZES)))
    watch = MechanismWatch(SIZES)
    reused = np.empty(sum(SIZES), np.float32)
    for vector in vectors:
        reused[:] = vector  # a buffer that the loop writes on
        watch.see_round(reused, noise_stddev=STDDEV, norm_bound=CLIP_NORM)
    run = aggregates_of(vectors)
    total = np.zeros(sum(SIZES))
    seen = vectors.astype(np.float32)
    for vector, last in zip(seen, [None, *seen[:-1]], strict=True):
        add_squares(total, vector, last, STDDEV)
    run = dataclasses.replace(run, coordinates=CoordinateLengths(total, ROUNDS))
    assert watch.checks() == check_aggregates(run)


def test_a_log_on_disk_gives_the_same_checks(tmp_path):
    random = np.random.default_rng(2)
    vectors = random.normal(0, STDDEV, (ROUNDS, sum(SIZES))).astype(np.float32)
    path = tmp_path / "aggregates.npy"
    in_memory = MechanismWatch(SIZES)
    on_disk = MechanismWatch(SIZES, AggregateLog.at_round(0, path, ROUNDS + 1, len(SIZES)))
    for vector in vectors:
        for watch in (in_memory, on_disk):
            watch.see_round(vector, noise_stddev=STDDEV, norm_bound=CLIP_NORM)
    everywhere = [check for check in in_memory.checks() if check.name != "noise_everywhere"]
    assert on_disk.checks() == everywhere
    assert on_disk.autocorrelation == in_memory.autocorrelation


def test_who_goes_on_with_a_log_writes_behind_it_and_has_no_checks(tmp_path):
    random = np.random.default_rng(3)
    vectors = random.normal(0, STDDEV, (2, sum(SIZES))).astype(np.float32)
    path = tmp_path / "aggregates.npy"
    for completed, vector in enumerate(vectors):
        log = AggregateLog.at_round(completed, path, 2, len(SIZES))
        watch = MechanismWatch(SIZES, log, completed)
        watch.see_round(vector, noise_stddev=STDDEV, norm_bound=CLIP_NORM)
        log.flush()
    np.testing.assert_array_equal(log.rows()[1], measure(vectors[1], None, SIZES))
    assert watch.autocorrelation is None
    with pytest.raises(InputError, match="every round before there are checks, and 1 were done"):
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


def test_nothing_seen_is_nothing_checked():
    with pytest.raises(InputError, match="see_round"):
        MechanismWatch(SIZES).checks()
