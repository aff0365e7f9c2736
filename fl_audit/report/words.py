"""Sentences on a run (task, participation, canaries, mechanism, ...), and on a source of scores."""

import numpy as np

from fl_audit.canaries.canary_tables import AnyCanaries, Canaries
from fl_audit.config import Config
from fl_audit.config.run_tables import (
    AdaptiveServer,
    Client,
    FedProx,
    FedSgd,
    MomentServer,
    Server,
    ServerSgd,
)
from fl_audit.config_tables.kinds import RecordedTable, recorded_words
from fl_audit.estimators.scores import Inclusion
from fl_audit.formats.run_record import RunRecord
from fl_audit.mechanisms import MECHANISMS, Mechanism
from fl_audit.mechanisms.zeroing import zeroing_words
from fl_audit.number_words import count, significant
from fl_audit.participation.schedule import canary_rounds, client_rounds
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.report import AS_THE_LOG_STATES, Report, ScoreSource

_INCLUDED_BY: dict[Inclusion, str] = {
    "coins": "fair coins included",
    "unequal_coins": "unequal coins included",
    "fixed_half": "a random half was included,",
    "pairs": "one of each pair was included,",
}

_LEFT_OUT: dict[Inclusion, str] = {
    "unequal_coins": "Methods that need fair coins are left out; one_run_valid is proven for "
    "coins of any probability.",
    "fixed_half": "Methods that need a coin for each canary are left out.",
    "pairs": "Methods that need a coin for each canary are left out; one_run_valid guesses which "
    "one of a pair was included.",
}


def run_facts(run: FinishedRun) -> dict[str, str]:
    """Sentences describing the run, by topic."""
    record, config = run.record, run.config
    return {
        "Task": f"The task is {record.task}: a model of d = {record.dim:,} trainable parameters, "
        f"trained for {rounds_done(record)} on {count(record.num_clients, 'client')}.",
        "Accuracy": f"The final model’s accuracy is {significant(100 * record.accuracy)} % "
        f"({record.accuracy_description}).",
        "Participation": client_rounds(
            record, config.participation, config.dropouts.words if config.dropouts else ""
        ),
        "Canaries": _canaries(run),
        "Mechanism": mechanism_words(record, config.mechanism),
        "Clients": client_training(config.client),
        "Server": server_step(config.server),
        "Seed": f"The seed is {config.seed}.{_schedule_words(run)}",
    }


def _schedule_words(run: FinishedRun) -> str:
    if run.record.schedule_secret is None:
        return ""
    what = "of this run alone" if run.record.schedule_secret == "run" else "that the config names"
    return (
        f" Rounds are drawn from a secret {what}: bounds that count on sampling hold against "
        "attackers who do not know this secret."
    )


def canary_cost(run: FinishedRun) -> dict[str, str]:
    """Vector canaries' share of participations, as it costs accuracy; empty without any."""
    participations = int(run.rounds.participants.sum())
    canaries = sum(map(len, run.canary_rounds))
    if not isinstance(run.config.canaries, Canaries) or not canaries or not participations:
        return {}
    share, norm = significant(100 * canaries / participations, 2), _canary_norm(run.config)
    length = "the clip norm" if norm is None else f"norm {norm:g}"
    return {
        "Cost of the canaries": f"{share} % of participations; each adds a random vector of "
        f"{length}, so accuracy may fall"
    }


def _canary_norm(config: Config) -> float | None:
    """The norm of vector canaries; None if it is the clip norm, or not known."""
    if isinstance(config.mechanism, RecordedTable):
        return None
    return MECHANISMS.kind_of(config.mechanism).canary_norm(config.mechanism)


def canary_words(report: Report) -> str:
    """What a canary is and whom it represents, by the kind of canaries, to follow "A canary is"."""
    config, source = report.config, report.source
    if config is None and (source is None or source.family is None):
        return (
            "a client or an example that was included in or excluded from training at random. A "
            "real client may leak less or more."
        )
    if config is not None and not isinstance(config.canaries, Canaries):
        return (
            "an artificial client that trains on the examples that “The run” describes. It "
            "represents clients with such examples. A real client may leak less; a client designed "
            "for another attack may leak more."
        )
    norm = None if config is None else _canary_norm(config)
    length = "" if config is None else ", as long as the clip norm allows"
    length = length if norm is None else f", of norm {norm:g}"
    return (
        f"an artificial client whose update is a random direction{length}. It represents a client "
        "that is easy to recognise. A real client may leak less; a client designed for another "
        "attack may leak more."
    )


def rounds_done(record: RunRecord) -> str:
    """The number of rounds in words, such as "100 rounds" or "12 of 100 rounds"."""
    rounds = count(record.rounds, "round")
    return rounds if record.stopped_after is None else f"{record.stopped_after} of {rounds}"


def _canaries(run: FinishedRun) -> str:
    record, participations = run.record, list(map(len, run.canary_rounds))
    if record.num_canaries == 0:
        return "There are no canaries, so nothing is audited."
    inclusion = run.config.canaries.inclusion
    start = (
        f"Of {record.num_canaries:,} {_kind_of(run.config.canaries)}, "
        f"{_INCLUDED_BY[inclusion]} {record.num_included:,}"
    )
    if not participations:
        return f"{start}."
    least, most = min(participations), max(participations)
    rounds = f"{least} to {count(most, 'round')}, {np.median(participations):g} at the median"
    if least == most:
        rounds = count(least, "round")
    arms = getattr(run.config.canaries, "arms", ())
    order = (
        f"Arms, to which canaries were assigned at random: {', '.join(arms)}."
        if arms
        else canary_rounds(run.config.participation)
    )
    sentences = [f"{start}; an included canary participated in {rounds}. {order}"]
    if inclusion != "coins":
        sentences.append(_LEFT_OUT[inclusion])
    return " ".join(sentences)


def _kind_of(canaries: AnyCanaries) -> str:
    """A plural noun phrase for the canaries."""
    if isinstance(canaries, Canaries):
        return f"{canaries.family.capitalize()} canaries"
    if canaries.source == "file":
        return "canaries that each hold the examples of a client of the user’s file"
    size = canaries.examples_per_canary
    if canaries.source == "random":
        held = "as many random examples as the median client has"
        return f"canaries that each hold {held if size is None else count(size, 'random example')}"
    held = "all examples" if size is None else count(size, "example")
    wrong = ", mislabelled" if canaries.source == "mislabelled" else ""
    return f"canaries that each hold {held} of a client taken out of the population{wrong}"


def scores_facts(report: Report) -> dict[str, str]:
    """Known and unknown facts of a folder or file of scores, in sentences."""
    source = report.source or ScoreSource("scores")
    kind = "canaries" if source.family is None else f"{source.family.capitalize()} canaries"
    model = "" if report.dim is None else f", in a model of d = {report.dim:,} trainable parameters"
    rounds = "" if source.num_rounds is None else f" and {count(source.num_rounds, 'scored round')}"
    is_checked = report.checks is not None and report.checks.results
    lacking = "Not shown" if source.has_record else "Not known"
    return {
        "Scores": f"“{source.name}” holds scores of {report.num_canaries:,} {kind}, of which "
        f"{report.num_included:,} were included in training{rounds}{model}.",
        lacking: _not_known(report, is_checked=bool(is_checked)),
    }


def _not_known(report: Report, *, is_checked: bool) -> str:
    """Sentences on the facts that a log or scores lack, and on what the page lacks therefore."""
    unknown, lacks = "what was trained and how well", "no accuracy"
    if report.analytical is None:
        unknown += ", or who participated when" if is_checked else ", who participated when"
        lacks += ", no upper bound"
    if not is_checked:
        unknown += "" if report.analytical else ", or what noise was added"
        lacks += ", no checks of the mechanism"
    without = f"So this page has {lacks} and no config."
    if report.source is not None and report.source.has_record:
        return f"run.json says what was trained and how well, but is not shown here. {without}"
    subject = "The log does" if report.is_stated_by_log else "The scores do"
    sentences = [f"{subject} not say {unknown}. {without}"]
    if report.is_stated_by_log:
        sentences.append(f"Upper bounds are of the noise and the rounds {AS_THE_LOG_STATES}.")
    return " ".join(sentences)


def mechanism_words(record: RunRecord, mechanism: Mechanism) -> str:
    """A sentence on clipping and noise, after a sentence on zeroing if updates are zeroed."""
    if isinstance(mechanism, RecordedTable):
        return f"Updates are clipped and noised {recorded_words(mechanism)}."
    kind = MECHANISMS.kind_of(mechanism)
    has_noise = record.release.noise.noise_multiplier != 0
    noise = kind.noise_words(mechanism, record) if has_noise else "; no noise is added"
    return f"{zeroing_words(mechanism.zeroing)}{kind.clip_words(mechanism)}{noise}."


_NAMES = {"sgd": "SGD", "adagrad": "Adagrad", "adam": "Adam", "yogi": "Yogi"}


def client_training(client: Client) -> str:
    """A sentence on a client's work in a round."""
    if isinstance(client, FedSgd):
        return (
            "A client sends the gradient of its loss at the round’s model, mean over its examples "
            "(FedSGD)."
        )
    momentum = f" and momentum {client.momentum:g}" if client.momentum else ""
    steps = (
        f"A client runs {count(client.epochs, 'epoch')} of {_NAMES[client.optimizer]} with "
        f"learning rate {client.learning_rate:g}{momentum} on batches of {client.batch_size}"
    )
    if isinstance(client, FedProx):
        strength = f"{client.proximal_strength:g}"
        return f"{steps}, pulled back to the round’s model with strength {strength} (FedProx)."
    return f"{steps}."


def server_step(server: Server) -> str:
    """A sentence on how the server applies an aggregate."""
    if isinstance(server, ServerSgd):
        momentum = f" and momentum {server.momentum:g}" if server.momentum else ""
        how = f"SGD with learning rate {server.learning_rate:g}{momentum}"
    else:
        how = _adaptive(server)
    return f"The server applies a round’s aggregate by {how}."


def _adaptive(server: AdaptiveServer) -> str:
    name = _NAMES[str(server.__struct_config__.tag)]
    betas = ""
    if isinstance(server, MomentServer):
        betas = f", β₁ {server.beta_1:g}, β₂ {server.beta_2:g}"
    return f"{name} with learning rate {server.learning_rate:g}{betas} and τ {server.tau:g}"
