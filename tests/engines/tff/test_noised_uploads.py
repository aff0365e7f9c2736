"""Noise at the client: uploads as the server receives them, and the aggregate that they make."""

import msgspec
import numpy as np
import pytest

from fl_audit.attacks import Audit
from fl_audit.config.design import design_run
from fl_audit.engines.runtimes import make_runtime
from fl_audit.engines.tff.trained_blocks import TrainedBlocks
from fl_audit.errors import InputError
from tests.engines.jax.conftest import with_keys
from tests.engines.noised_uploads import (
    AT_CLIENTS,
    SEEN,
    assert_same_rounds,
    check_uploads,
    rounds,
)

pytestmark = pytest.mark.tff


def of(run, tmp_path, *, runtime="local", audit=SEEN, **changed):
    """The run with noise at the client, and its runtime."""
    keys = {"runtime": runtime, "mechanism": AT_CLIENTS, "audit": audit, **changed}
    made = with_keys(run, **keys)
    return made, make_runtime(made, tmp_path / "worker.log")


@pytest.fixture(scope="module")
def in_blocks(dense_run, tmp_path_factory):
    """The run and its runtime, compiled once, with clients in blocks."""
    run, engine = of(dense_run, tmp_path_factory.mktemp("blocks"), clients_per_block=4)
    assert isinstance(engine.client_inputs, TrainedBlocks)
    return run, engine


@pytest.fixture(scope="module")
def whole(in_blocks):
    """The rounds of that run."""
    return rounds(*in_blocks)


@pytest.mark.slow
def test_uploads_are_clipped_canaries_with_noise_of_their_own(in_blocks, whole):
    check_uploads(in_blocks[0], whole)


@pytest.mark.slow
def test_a_resumed_run_has_the_same_noise(in_blocks, whole):
    """From the parts of a state after a round, as a checkpoint has them, bit for bit."""
    run, engine = in_blocks
    with engine.session():
        like = engine.begin()
    state = engine.from_leaves(like, engine.leaves(whole[0][1].state))
    assert_same_rounds(whole[1:], rounds(run, engine, state, 1))


@pytest.mark.slow
def test_every_run_draws_noise_of_its_own(in_blocks, whole):
    other = rounds(*in_blocks)[0][1].seen.aggregate
    assert np.abs(other - whole[0][1].seen.aggregate).max() > 0.01


@pytest.mark.slow
def test_native_gives_what_local_gives(dense_run, tmp_path):
    unseen = Audit()
    run, local = of(dense_run, tmp_path, audit=unseen, clients_per_block=1)
    _, native = of(dense_run, tmp_path, audit=unseen, runtime="native")
    with local.session():
        state = local.begin()
    ours = rounds(run, local, state)
    theirs = rounds(run, native, state)
    for (_, one), (_, other) in zip(ours, theirs, strict=True):
        assert one.seen.uploads == other.seen.uploads == {}
        np.testing.assert_allclose(one.seen.aggregate, other.seen.aggregate, atol=1e-5)


@pytest.mark.parametrize("runtime", ["native", "ray"])
def test_runtimes_that_cannot_say_so(dense_run, tmp_path, runtime):
    if runtime == "ray":
        pytest.importorskip(runtime)
    with pytest.raises(InputError, match=r"one_upload|client_gaussian"):
        of(dense_run, tmp_path, runtime=runtime)


def test_uploads_without_noise_are_not_attacked(dense_run):
    config = msgspec.structs.replace(dense_run.config, audit=SEEN)
    with pytest.raises(InputError, match=r"needs noise at the client, mechanism.kind 'client_gau"):
        design_run(config, [f"client-{i}" for i in range(dense_run.num_clients)], 12)
