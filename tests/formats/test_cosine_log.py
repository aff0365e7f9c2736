import numpy as np
import pytest

from fl_audit.attacks.over_rounds import over_rounds
from fl_audit.errors import InputError
from fl_audit.formats.cosine_log import CosineLog


def test_maxima_and_sums_over_rounds(tmp_path):
    random = np.random.default_rng(0)
    cosines = random.normal(size=(7, 5000))
    log = CosineLog.create(tmp_path / "cosines.npy", *cosines.shape)
    for round_index, row in enumerate(cosines):
        log.write_round(round_index, row)
    log.flush()
    reopened = CosineLog.open(tmp_path / "cosines.npy", *cosines.shape)
    kept = cosines.astype(np.float32).astype(np.float64)
    assert len(list(reopened.rows())) == 7
    over = over_rounds(reopened.rows(), reopened.num_canaries)
    np.testing.assert_array_equal(over.maximum, kept.max(axis=0))
    np.testing.assert_allclose(over.total, kept.sum(axis=0), rtol=1e-12, atol=1e-12)
    assert len(list(reopened.rows(range(2, 5)))) == 3
    window = over_rounds(reopened.rows(range(2, 5)), reopened.num_canaries)
    np.testing.assert_array_equal(window.maximum, kept[2:5].max(axis=0))


def test_rounds_that_are_not_written_whole_do_not_count(tmp_path):
    log = CosineLog.create(tmp_path / "cosines.npy", 4, 3)
    assert not log.written().any()
    log.write_round(1, np.array([-0.5, -0.25, -1.0]))
    log.write_round(2, np.array([np.nan, 1.0, 1.0]))  # as a crash may leave it
    np.testing.assert_array_equal(log.written(), [False, True, False, False])
    read = CosineLog.read(tmp_path / "cosines.npy", 3)
    assert read.num_rounds == 4
    assert len(list(read.rows())) == 1
    over = over_rounds(read.rows(), read.num_canaries)
    np.testing.assert_array_equal(over.maximum, [-0.5, -0.25, -1.0])
    np.testing.assert_array_equal(over.total, [-0.5, -0.25, -1.0])


def test_a_log_of_another_run_is_refused(tmp_path):
    path = tmp_path / "cosines.npy"
    with pytest.raises(InputError, match="is not a log of cosines"):
        CosineLog.open(path, 3, 4)
    CosineLog.create(path, 3, 4)
    with pytest.raises(InputError, match=r"must be float32 of shape \(3, 5\)"):
        CosineLog.open(path, 3, 5)
    with pytest.raises(InputError, match=r"must be float32 of shape \(rounds, 5\)"):
        CosineLog.read(path, 5)
    np.save(path, np.float32(1))
    with pytest.raises(InputError, match=r"of shape \(\), must be float32 of shape \(rounds, 5\)"):
        CosineLog.read(path, 5)
    path.write_bytes(b"no array")
    with pytest.raises(InputError, match="is not a log of cosines"):
        CosineLog.open(path, 3, 4)
