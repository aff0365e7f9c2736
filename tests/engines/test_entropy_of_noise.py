"""The noise of every engine hangs on all of a key's bytes: fresh, and after a resume.

The source of entropy is replaced by bytes that are known. The same bytes give the same noise, so
that nothing else enters it; bytes of which only the first or the last differs give another.
"""

import secrets

import numpy as np
import pytest

from fl_audit.config import (
    Canaries,
    ClientGaussian,
    Distributed,
    GaussianAdaptive,
    GaussianFixed,
    MatrixFactorisation,
    RayCluster,
    TreeAggregation,
)
from fl_audit.engines.runtimes import make_runtime
from tests.engines.jax.conftest import small_run, with_keys

MECHANISMS = {
    "fixed": GaussianFixed(noise_multiplier=1.0, clip_norm=0.3),
    "adaptive": GaussianAdaptive(noise_multiplier=0.3, clip_norm=0.3),
    "tree": TreeAggregation(noise_multiplier=1.0, clip_norm=0.3),
    "matrix": MatrixFactorisation(
        noise_multiplier=1.0, clip_norm=0.3, strategy="banded_sqrt", bands=2
    ),
    "at clients": ClientGaussian(noise_multiplier=1.0, clip_norm=0.3),
    "distributed": Distributed(noise_multiplier=0.3, clip_norm=0.3),
    "distributed, adaptive": Distributed(noise_multiplier=0.3),
}
IN_STATE = ("tree", "matrix", "at clients")
"""The mechanisms whose key is drawn with the first state, and is kept in it."""

SAME = "all of it"
ENTROPY = {
    SAME: "0123456789abcdef",
    "all but the first byte": "-123456789abcdef",
    "all but the last byte": "0123456789abcde-",
}


class Source:
    """Known bytes in place of the system's entropy: of graphs and of Python."""

    def __init__(self, path, monkeypatch, *, of_graphs):
        self._path = path
        if of_graphs:
            monkeypatch.setattr("fl_audit.mechanisms.tff_noise.ENTROPY_FILE", str(path))
        monkeypatch.setattr(secrets, "token_bytes", lambda number: self._text[:number].encode())

    def become(self, text):
        # Graphs add the second half of 32 bytes to the first modulo 2, and count on lines.
        self._text = text
        self._path.write_text(text + 16 * " " + 40 * "\n")


def noise_of(engine, run, leaves=None):
    """Aggregate of a round by the leaves of a state, else of the first; and the leaves after it."""
    state = engine.begin()
    state = state if leaves is None else engine.from_leaves(state, leaves)
    cohort = run.schedule.cohort(0)
    trained = engine.run_round(state, engine.reader(run)(cohort, 0), 0)
    return trained.seen.aggregate, [np.asarray(leaf) for leaf in engine.leaves(trained.state)]


SLOW = pytest.mark.slow
RUNTIMES = [
    *(
        pytest.param("jax", mechanism, marks=[] if mechanism == "adaptive" else SLOW)
        for mechanism in MECHANISMS
    ),
    *(
        pytest.param(runtime, mechanism, marks=[pytest.mark.tff, *marks])
        for runtime, mechanism, marks in [
            *(("local", m, [SLOW]) for m in MECHANISMS),
            *(("native", m, [SLOW]) for m in MECHANISMS),
            *(("ray", m, [SLOW]) for m in MECHANISMS if m != "at clients"),
            *(("jax on ray", m, [SLOW]) for m in ("adaptive", "tree", "matrix")),
        ]
    ),
]


@pytest.mark.parametrize(("runtime", "mechanism"), RUNTIMES)
def test_noise_follows_from_every_byte_of_a_key(runtime, mechanism, monkeypatch, tmp_path):
    on_ray = {"ray": RayCluster(actors=1), "jax on ray": RayCluster(actors=1, engine="jax")}
    cluster = on_ray.get(runtime)
    pytest.importorskip("numpy" if cluster is None else "ray.util")
    pytest.importorskip("numpy" if "jax" in runtime else "tensorflow_federated")
    run = small_run(mechanism=MECHANISMS[mechanism], canaries=Canaries(count=4, family="gaussian"))
    run = with_keys(run, clients_per_block=1 if runtime == "local" else None)
    run = with_keys(run, runtime=runtime if cluster is None else "ray", ray=cluster)
    source = Source(tmp_path / "entropy", monkeypatch, of_graphs="jax" not in runtime)
    engine = make_runtime(run, worker_log=tmp_path / "worker.log")
    fresh, after = {}, {}
    with engine.session():
        source.become(ENTROPY[SAME])
        first, leaves = noise_of(engine, run)
        resumed, _ = noise_of(engine, run, leaves)
        for name, text in ENTROPY.items():
            source.become(text)
            fresh[name] = np.abs(noise_of(engine, run)[0] - first).max()
            after[name] = np.abs(noise_of(engine, run, leaves)[0] - resumed).max()
    others = [name for name in ENTROPY if name != SAME]
    is_kept = mechanism in IN_STATE
    least = min((fresh if is_kept else after)[name] for name in others)
    assert min(least, *(fresh[name] for name in others)) > 1e-3
    # TFF's clients round to a grid with randomness that is no noise, and is small beside it.
    assert after[SAME] < 0.1 * least
    assert all((after[name] < 0.1 * least) == is_kept for name in others)
    # TFF's first state has a rotation of its own, public and drawn by the clock.
    is_rotated = "jax" not in runtime and mechanism.startswith("distributed")
    assert is_rotated or fresh[SAME] < 0.1 * least
