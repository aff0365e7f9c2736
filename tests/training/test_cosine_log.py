import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.training.cosine_log import CosineLog


def test_maxima_and_sums_over_rounds(tmp_path):
    random = np.random.default_rng(0)
    cosines = random.normal(size=(7, 5000))  # more canaries than one block
    log = CosineLog.create(tmp_path / "cosines.npy", *cosines.shape)
    for round_index, row in enumerate(cosines):
        log.write_round(round_index, row)
    log.flush()
    reopened = CosineLog.open(tmp_path / "cosines.npy", *cosines.shape)
    kept = cosines.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(reopened.maxima(), kept.max(axis=0))
    np.testing.assert_allclose(reopened.sums(), kept.sum(axis=0), rtol=1e-12, atol=1e-12)


def test_a_log_of_another_run_is_refused(tmp_path):
    path = tmp_path / "cosines.npy"
    with pytest.raises(InputError, match="is not a log of cosines"):
        CosineLog.open(path, 3, 4)
    CosineLog.create(path, 3, 4)
    with pytest.raises(InputError, match=r"must be float32 of shape \(3, 5\)"):
        CosineLog.open(path, 3, 5)
    path.write_bytes(b"no array")
    with pytest.raises(InputError, match="is not a log of cosines"):
        CosineLog.open(path, 3, 4)
