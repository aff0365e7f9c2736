"""Audits Flower's `LocalDpMod` by what one client uploads, against the epsilon that it is given.

    python -m experiments.in_the_wild.local_dp CLIP_NORM SENSITIVITY EPSILON [DELTA]

300 canary clients upload once, each through the mod as Flower calls it: included ones a vector that
is clipped, excluded ones send almost zero. The claim is the mod's own epsilon and delta.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord
from flwr.clientapp.mod import LocalDpMod

from experiments.in_the_wild.flower import NEXT_TO_NOTHING, clipped_by, reply
from fl_audit.attacks import CanaryPool, Participation, RoundScorer, flatten
from fl_audit.cli import main as fl_audit

DIM, CANARIES = 2_000, 300


def upload(mod: LocalDpMod, update: np.ndarray) -> np.ndarray:
    """What leaves the device of a client with this update, which was sent a model of zeros."""
    starts = ArrayRecord([np.zeros(DIM)])
    sent = clipped_by(mod, mod.clipping_norm, reply([update], num_examples=1), starts)
    return next(iter(sent.content.array_records.values())).to_numpy_ndarrays()[0]


def audit(mod: LocalDpMod, seed: int) -> int:
    """Prints what `fl-audit estimate` says of the mod's claim, and returns its exit status."""
    np.random.seed(seed)
    pool = CanaryPool(seed=seed, count=CANARIES, dim=DIM)
    lengths = np.where(pool.included, 100 * mod.clipping_norm, NEXT_TO_NOTHING)
    uploads = {j: upload(mod, lengths[j] * pool.vector(j)) for j in range(CANARIES)}
    claims = Participation("none", client_rounds=1, claim_covers_uploads=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit"
        scorer = RoundScorer.create(path, pool, num_rounds=1, participation=claims)
        scorer.score_uploads(1, {j: flatten(made, DIM, "upload") for j, made in uploads.items()})
        options = ["--delta", str(mod.delta), "--claimed-epsilon", str(mod.epsilon)]
        return fl_audit(["estimate", str(path), *options])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    numbers = [float(word) for word in sys.argv[1:]]
    sys.exit(audit(LocalDpMod(*numbers[:3], numbers[3] if numbers[3:] else 1e-5), seed=1))
