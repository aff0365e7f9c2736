"""Labels that are wrong, each wrong class as likely as the next."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.canaries.canary_tables import wrong_labels

CLASSES = 7


@pytest.mark.parametrize("padding", [-1, 0, 3])
def test_no_label_stays_or_becomes_padding_and_padding_stays(padding):
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, (500, 3)).astype(np.int32)
    labels[0] = padding
    wrong = wrong_labels(labels, CLASSES, padding, random)
    assert wrong.dtype == np.int32
    np.testing.assert_array_equal(wrong[labels == padding], padding)
    counted = labels != padding
    assert (wrong[counted] != labels[counted]).all()
    assert (wrong[counted] != padding).all()
    assert set(wrong[counted]) == set(range(CLASSES)) - {padding}


@pytest.mark.parametrize("padding", [-1, 0])
def test_every_wrong_class_is_as_likely(padding):
    right = 2
    labels = np.full(60_000, right, np.int32)
    wrong = wrong_labels(labels, CLASSES, padding, np.random.default_rng(1))
    counts = np.bincount(wrong, minlength=CLASSES)
    others = [c for c in range(CLASSES) if c not in (right, padding)]
    assert counts[others].sum() == len(labels)
    # Fails for one seed in 1e7.
    assert stats.chisquare(counts[others]).pvalue > 1e-7
