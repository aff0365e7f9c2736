"""What every engine has to show of runs whose clients add the noise."""

import numpy as np
import pytest

from fl_audit.attacks import Audit
from fl_audit.config import ClientGaussian

CLIP, Z = 0.5, 2.0
AT_CLIENTS = ClientGaussian(noise_multiplier=Z, clip_norm=CLIP)
SEEN = Audit(threat_models=("known_rounds", "one_upload"))


def rounds(run, engine, state=None, first=0):
    """The rounds from a state on."""
    read, made = engine.reader(run), []
    with engine.session():
        state = engine.begin() if state is None else state
        for index in range(first, run.schedule.num_rounds):
            data = read(run.schedule.cohort(index), index)
            made.append((data, engine.run_round(state, data, index)))
            state = made[-1][1].state
    return made


def check_uploads(run, made):
    """Checks that uploads are clipped canaries with noise, and that aggregates have all noise."""
    uploads = {(t.seen.index, c): u for _, t in made for c, u in t.seen.uploads.items()}
    assert len(uploads) == sum(len(data.canaries) for data, _ in made) > 3
    sent = {key: CLIP * run.family.vector(key[1]) for key in uploads}
    noise = np.array([(uploads[key] - sent[key]) / (Z * CLIP) for key in uploads])
    dim = noise.shape[1]
    # Six standard errors of each number of the standard normal distribution (1e-8).
    assert abs(noise.mean()) < 6 / np.sqrt(noise.size)
    assert abs(noise.std() - 1) < 6 / np.sqrt(2 * noise.size)
    products = noise @ noise.T / dim
    assert np.abs(products - np.diag(np.diag(products))).max() < 7 / np.sqrt(dim)
    for data, trained in made:
        participants = len(data.clients) + len(data.canaries)
        assert trained.noise_stddev == pytest.approx(Z * CLIP * np.sqrt(participants))
        of_sum = trained.seen.aggregate * run.schedule.expected_cohort
        # Clipped updates add at most participants * CLIP to the length, squared about 2 % here.
        signal = (participants * CLIP) ** 2 / dim
        assert of_sum.std() ** 2 > trained.noise_stddev**2 * (1 - 6 * np.sqrt(2 / dim))
        assert of_sum.std() ** 2 < trained.noise_stddev**2 * (1 + 6 * np.sqrt(2 / dim)) + signal


def assert_same_rounds(ours, theirs):
    for (_, first), (_, second) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(first.seen.aggregate, second.seen.aggregate)
        assert first.seen.uploads.keys() == second.seen.uploads.keys()
        for canary, upload in first.seen.uploads.items():
            np.testing.assert_array_equal(upload, second.seen.uploads[canary])
