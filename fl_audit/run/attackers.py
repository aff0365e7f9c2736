"""The attackers of a run during training, including those on canaries that hold examples.

Scores on examples follow Steinke et al. 2023, Algorithm 3. Each score is a function of the release,
of the canary's examples and of the seed, for included and excluded canaries alike. So, given the
release, only the coins have to be guessed, as one-run bounds require. If the run leaks nothing, the
scores of included and excluded canaries are exchangeable, because all coins have the same
probability and are independent of the examples; the empirical null needs this.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks import example_statistics
from fl_audit.attacks.arrays import unflatten
from fl_audit.attacks.attacker import AttackContext, Attacker, ModelAttacker, SeenRound
from fl_audit.attacks.threat_models import make_attackers as make_attackers_of
from fl_audit.attacks.threat_models import register_attacker, statistics_of
from fl_audit.attacks.update_ratio import RoundFilter, Signals, UpdateLogs, clipped
from fl_audit.canaries.canary_tables import coin_probability, family_of
from fl_audit.config import ExampleCanaries
from fl_audit.engines.engine import ClientUpdates, Engine, Weights, as_vector
from fl_audit.engines.example_canaries import alike_canaries, parts_of, usual_size
from fl_audit.engines.prepare import PreparedRun
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_logs import mode_after
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.learning_task import Examples

# Stand-ins train on data like a round's participants, to model the participants' updates.
# Nothing here depends on a canary's coin.


_MOST_OF_A_KIND = 128
_MOST_NUMBERS = 1 << 26
"""The largest number of entries of all stand-ins' updates together: 256 MB."""


@dataclass(frozen=True, eq=False)
class StandIns:
    """Stand-ins for a round's participants."""

    clients: Sequence[Examples]  # the examples of each, in the order of training
    counts: FloatArray  # expected number of participants each represents, float64 of shape (n,)
    repeats: float  # the larger of a canary's and a client's expected rounds, at least 1


def make_stand_ins(run: PreparedRun) -> StandIns:
    """Stand-ins for a run's clients and canaries; neither kind has more than there are canaries."""
    random = generator(run.config.seed, Stream.STAND_INS)
    schedule, pool = run.schedule, run.num_canaries
    most = max(1, min(_MOST_OF_A_KIND, pool, _MOST_NUMBERS // (2 * run.task.classifier.dim)))
    of_canary = float(np.mean([len(rounds) for rounds in run.own_rounds.of_canary]))
    canaries_of_round = coin_probability(run.config.canaries) * pool * of_canary
    canaries_of_round /= schedule.num_rounds
    if not isinstance(run.config.canaries, ExampleCanaries):
        raise TypeError("stand-ins are for canaries that hold examples")
    like_canaries = alike_canaries(run.config.canaries, run.task, most, random)
    like_clients = _like_clients(run, most, random)
    clients_of_round = schedule.expected_clients
    if not like_canaries:  # canaries are like clients, or cannot be modelled
        clients_of_round += canaries_of_round
    counts = (
        np.full(len(like_clients), clients_of_round / len(like_clients)),
        np.full(len(like_canaries), canaries_of_round / max(len(like_canaries), 1)),
    )
    of_client = schedule.expected_clients * schedule.num_rounds / run.num_clients
    most_examples = run.task.max_examples_per_client
    passes = [
        examples.take(np.tile(np.arange(len(examples))[:most_examples], run.config.client.epochs))
        for examples in (*like_clients, *like_canaries)
    ]
    return StandIns(passes, np.concatenate(counts), max(1.0, of_canary, of_client))


def _like_clients(run: PreparedRun, most: int, random: np.random.Generator) -> list[Examples]:
    """Held-out examples in parts as large as a client's data."""
    held_out = run.task.held_out
    size = min(usual_size(run.task), len(held_out))
    order = random.permutation(len(held_out))[: most * size]
    return list(parts_of(held_out.take(order), size))


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingContext(AttackContext):
    """The context of attackers that train canaries themselves."""

    run: PreparedRun
    engine: Engine


def training_context(context: AttackContext) -> TrainingContext:
    """The context of a run that trains; raises TypeError for any other context."""
    if not isinstance(context, TrainingContext):
        raise TypeError("attackers on canaries that hold examples need a run that trains")
    return context


class LossAttacker(ModelAttacker):
    """An attacker that can query models for losses."""

    def __init__(self, run: PreparedRun, engine: Engine) -> None:
        self._run = run
        self._engine = engine

    @classmethod
    def from_context(cls, context: AttackContext) -> Self:
        training = training_context(context)
        return cls(training.run, training.engine)

    def _losses(self) -> Callable[[Weights], FloatArray]:
        return self._engine.losses(self._run)


class FinalLossAttacker(LossAttacker):
    """An attacker that can only query the final model for losses."""

    statistics = (example_statistics.FINAL_LOSS,)

    def scores_of_model(self, final: Float32Array) -> Mapping[str, FloatArray]:
        weights = unflatten(final, self._run.task.classifier.initial_weights)
        return {example_statistics.FINAL_LOSS.name: -self._losses()(weights)}


class LossDifferenceAttacker(LossAttacker):
    """An attacker that can query the initial and the final model (Algorithm 3, black box)."""

    statistics = (example_statistics.LOSS_DIFFERENCE,)

    def scores_of_model(self, final: Float32Array) -> Mapping[str, FloatArray]:
        """The initial model's losses minus the final model's losses (Algorithm 3, line 9)."""
        losses, initial = self._losses(), self._run.task.classifier.initial_weights
        before, after = (losses(w) for w in (initial, unflatten(final, initial)))
        return {example_statistics.LOSS_DIFFERENCE.name: before - after}


class UpdateAttacker(Attacker):
    """An attacker that sees every round and knows each canary's would-be update (white box).

    In every round, every canary trains like a client from the round's initial model, and its update
    is clipped to the round's clip norm, whether it participates or not. The log holds the inner
    product with the round's noised aggregate (Algorithm 3, lines 13 to 17, with the update instead
    of the gradient and the aggregate instead of the difference of models), and the likelihood ratio
    given a model of other clients' updates (`attacks.update_ratio`), for which stand-ins train too.
    The score in a canary's own rounds belongs to a stronger threat model (`known_rounds`), in which
    the attacker knows these rounds and amplification by sampling does not apply.
    """

    statistics = (
        example_statistics.WHITE_BOX,
        example_statistics.WHITE_BOX_MAX,
        example_statistics.WHITE_BOX_RATIO,
        example_statistics.WHITE_BOX_OWN,
    )

    def __init__(self, run: PreparedRun, updates: ClientUpdates, logs: UpdateLogs) -> None:
        self._updates = updates
        self._logs = logs
        self._own = run.own_rounds
        self._stand_ins = make_stand_ins(run)
        self._denominator = run.release.denominator.expected
        self._data = run.cohort_data

    @classmethod
    def from_context(cls, context: AttackContext) -> Self:
        """Raises InputError if the engine cannot train canaries, or a log is missing or damaged."""
        training = training_context(context)
        updates = training.engine.client_updates(training.run)
        mode, shape = mode_after(context.completed), (context.num_rounds, context.num_canaries)
        logs = UpdateLogs.opened(mode, context.run_folder, *shape)
        return cls(training.run, updates, logs)

    def see_round(self, seen: SeenRound) -> None:
        """Logs the scores of all canaries in a round."""
        around = self._filter(seen)
        products, signals, energies = np.empty((3, self._logs.products.num_canaries))
        canaries = [self._data.of_canary(c, seen.index) for c in range(len(products))]
        for members, updates in self._updates(seen.before, canaries):
            sent = clipped(updates, seen.clip_norm)
            products[members] = sent @ seen.aggregate
            of_members = around.signals(sent)
            signals[members], energies[members] = of_members.signal, of_members.energy
        self._logs.write_round(seen.index, products, Signals(signals, energies))

    def _filter(self, seen: SeenRound) -> RoundFilter:
        clients = self._stand_ins.clients
        sent = np.empty((len(clients), len(seen.before)), np.float32)
        for members, updates in self._updates(seen.before, clients):
            sent[members] = clipped(updates, seen.clip_norm)
        noised_sum = seen.aggregate * np.float32(self._denominator)
        return RoundFilter.from_round(
            noised_sum, sent, self._stand_ins.counts, self._stand_ins.repeats
        )

    def flush(self) -> None:
        self._logs.flush()

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        return self._logs.scores(self._own)


register_attacker(FinalLossAttacker)
register_attacker(LossDifferenceAttacker)
register_attacker(UpdateAttacker)


def attack_context(
    run: PreparedRun, engine: Engine, folder: RunFolder, completed: int
) -> TrainingContext:
    """The context of a run's attackers, whose logs continue after `completed` rounds."""
    return TrainingContext(
        canaries=engine.scored_canaries(run),
        num_canaries=len(run.included),
        num_rounds=run.schedule.num_rounds,
        audit=run.config.audit,
        initial=as_vector(run.task.classifier.initial_weights),
        folder=folder,
        completed=completed,
        run=run,
        engine=engine,
        family=family_of(run.config.canaries),
        canary_rounds=run.own_rounds,
        seed=run.config.seed,
        correlation=run.release.correlation,
        release=run.release,
    )


def make_attackers(context: TrainingContext) -> tuple[Attacker, ...]:
    """The attackers whose statistics a run logs."""
    run = context.run
    return make_attackers_of(context, statistics_of(run.config.canaries, run.config.audit))
