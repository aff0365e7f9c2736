"""Attacks on clients: whole federated runs of one config, each with some of its clients."""

import math
from pathlib import Path

import numpy as np

from fl_audit.accounting import account
from fl_audit.config.attack import FederatedAttack, FederatedAttackConfig
from fl_audit.engines.prepare import PreparedRun, prepare
from fl_audit.engines.tff.shadow_models import AfterBlock
from fl_audit.engines.tff.shadow_runs import FederatedRuns
from fl_audit.errors import InputError
from fl_audit.pipeline.attacked_bases import BoolArray, MemberOutputs, Target
from fl_audit.report.attack import AttackedMember, AttackWords, Guaranteed


class AttackedClients(Target):
    """A config's clients and its federated training.

    The base of a client is all others: the attacked runs are those of the config itself, and the
    config without that client.
    """

    def __init__(self, config: FederatedAttackConfig, folder: Path, after_run: AfterBlock) -> None:
        """Loads the task, draws the schedule and accounts; nothing is written.

        Args:
          config: The config of the run, without canaries.
          folder: The folder of the runs' files, which exists when runs are trained.
          after_run: What is told of the progress.

        Raises:
          InputError: The config cannot be run, or its clients cannot be attacked.
        """
        self.attack, self.seed = config.attack, config.seed
        self._run = prepare(config)
        self.num_members, self.delta = self._run.num_clients, self._run.delta
        _check_clients(self.num_members, self.attack)
        self.guaranteed = _guaranteed(self._run)
        self.words = AttackWords(
            models="federated runs",
            member="client",
            challenge="Each challenge is a federated run of its own, with all clients or with all "
            "but one, which shadow runs showed to be the easiest to tell.",
            accuracy=self._run.task.classifier.accuracy_description,
        )
        self._runs = FederatedRuns(self._run, self.attack.initial_weights)
        self._folder, self._after_run = folder, after_run

    def train(self, training: BoolArray, first: int) -> MemberOutputs:
        """See `Target.train`; accuracy is that on held-out examples."""
        outputs = self._runs.train(training, first, self._folder, self._after_run)
        return MemberOutputs(outputs.margins, outputs.losses, outputs.accuracy)

    def base_without(self, member: int, random: np.random.Generator) -> BoolArray:
        """All other clients."""
        del random  # nothing is drawn
        return np.asarray(np.arange(self.num_members) != member)

    def member(self, index: int, accuracy: float, separation: float) -> AttackedMember:
        """See `Target.member`."""
        population = self._run.task.population
        return AttackedMember(
            index=index,
            facts={
                "client": population.client_ids[index],
                "examples": population.num_examples(index),
            },
            features=None,
            accuracy=accuracy,
            separation=separation,
        )


def _check_clients(num_clients: int, attack: FederatedAttack) -> None:
    if num_clients < 4:
        raise InputError(
            f"task: an attack on clients needs at least 4 of them, two halves, got {num_clients}"
        )
    if attack.num_clients > num_clients:
        raise InputError(
            f"attack.num_clients: must be at most {num_clients}, the task's clients, got "
            f"{attack.num_clients}"
        )


def _guaranteed(run: PreparedRun) -> Guaranteed:
    """The analytical epsilon of a run to a real client; infinite where none is known."""
    accounting = account(run.noisy_rounds)
    epsilon = accounting.client.epsilon
    return Guaranteed(
        epsilon=math.inf if epsilon is None else epsilon,
        noise_multiplier=run.noise.noise_multiplier,
        by="The config",
        neighbours=accounting.neighbours,
    )
