"""What will hide the canaries of a planned run: the verdict's simulation on predicted lengths."""

import dataclasses

import numpy as np

from fl_audit.accounting.release import Release
from fl_audit.accounting.sampling import UnknownRounds
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.config import ClientGaussian
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.simulation import Unknowns, draw_rounds, simulate_clip_path
from fl_audit.verdict import Background
from fl_audit.verdict.power import Lengths, SimulatedAudit
from fl_audit.verdict.scope import Scope
from fl_audit.verdict.simulation import Seen, Simulation

_SEED = 20_230_206


def predicted_background(run: PlannedRun, release: Release, unknowns: Unknowns) -> Background:
    """What hides canaries in the rounds of a run, in clip norms of each round."""
    random = np.random.default_rng(_SEED)
    path = simulate_clip_path(run, unknowns, 1, random)
    drawn = draw_rounds(run, path, 0, random)
    own = OwnRounds(tuple(run.schedule.rounds_of_canaries(run.num_canaries)))
    released = np.flatnonzero(drawn.norm > 0)
    empty = Background.of_canaries(own, run.included, run.task.dim)
    lengths = drawn.norm[released], np.ones(len(released))
    common = (unknowns.drift * drawn.real_norm**2)[released]
    weights = None
    if run.server is not None:
        weights = (run.round_weights(run.server) * drawn.clip_norm)[released]
    if isinstance(release.client.sampling, UnknownRounds):
        release = dataclasses.replace(release, client=release.canary)
    is_of_uploads = isinstance(run.mechanism, ClientGaussian)
    return dataclasses.replace(
        empty.with_rounds(released, *lengths),
        noise=drawn.noise[released],
        in_common=common,
        surely_common=common,
        weights=weights,
        uploads=run.noise.sum_noise_multiplier if is_of_uploads else None,
        release=release,
    )


def seen_of_plan(run: PlannedRun, release: Release, unknowns: Unknowns) -> Seen:
    """What the verdict's simulation will know of a planned run; the arguments are as above."""
    background = predicted_background(run, release, unknowns)
    scope = Scope(counts_on_sampling=release.client.participations is None)
    return Seen(background, Lengths(), scope)


def simulated_like(
    simulation: Simulation, run: PlannedRun, release: Release, unknowns: Unknowns
) -> SimulatedAudit:
    """A simulated audit with other clients."""
    background = predicted_background(run, release, unknowns)
    exposure = background.exposure(simulation.statistic.name)
    return dataclasses.replace(simulation.audit, exposure=exposure or simulation.audit.exposure)
