"""Who took part when, in sentences."""

from fl_audit.config import (
    Bernoulli,
    EveryRound,
    MinSeparation,
    Participation,
    Replay,
    Shuffle,
    Uniform,
)
from fl_audit.formats.run_folder import RunRecord
from fl_audit.number_words import count, significant


def client_rounds(record: RunRecord, participation: Participation) -> str:
    """A sentence on the rounds of real clients."""
    most = f"each client in at most {count(record.client_participations or 0, 'round')}"
    match participation:
        case Shuffle(clients_per_round=size):
            return f"Clients are shuffled: {count(size, 'client')} a round, {most}."
        case Bernoulli(clients_per_round=size):
            return _poisson(record, size)
        case Uniform():
            return _uniform(record)
        case EveryRound():
            return "Every client takes part in every round."
        case MinSeparation(clients_per_round=size, separation=separation):
            return (
                f"Clients are split into {count(separation, 'group')} that take turns, so that a "
                f"client checks in at most every {count(separation, 'round')}: "
                f"{count(size, 'client')} a round, {most}."
            )
        case _:
            return f"Clients take part as a production log says, {most}."


def _poisson(record: RunRecord, clients_per_round: int) -> str:
    probability = significant(record.sampling_probability or 0.0)
    return (
        f"Clients are Poisson-sampled: each joins each round with probability {probability}, "
        f"{count(clients_per_round, 'client')} a round on average."
    )


def _uniform(record: RunRecord) -> str:
    drawn = f"{record.sample_size or 0:,} of {record.sampled_from or 0:,}"
    if record.sampled_from == record.num_clients:
        return f"Each round draws {drawn} clients, uniformly without replacement."
    return (
        f"Each round draws {drawn} clients and canaries, uniformly without replacement; "
        "an excluded canary that is drawn sends nothing."
    )


def canary_rounds(participation: Participation) -> str:
    """A sentence on which rounds those of an included canary are."""
    return f"Its rounds are {_canary_rounds(participation)}."


def _canary_rounds(participation: Participation) -> str:
    match participation:
        case EveryRound():
            return "all of them"
        case Replay(canaries="most_frequent"):
            return "those of the client that takes part most often"
        case Replay():
            return "those of a client of the log, drawn at random for each canary"
        case MinSeparation(canaries="most_frequent"):
            return "all those of a group, drawn at random for each canary"
        case MinSeparation():
            return "drawn like a client’s"
        case _:
            return _drawn(participation)


def _drawn(participation: Shuffle | Bernoulli | Uniform) -> str:
    match participation.canaries:
        case "like_clients":
            return "drawn like a client’s"
        case "once_per_epoch":
            return "drawn at random, one in each epoch"
        case "last_rounds":
            last = count(participation.canary_last_rounds or 0, "round")
            return f"Poisson in number, drawn at random from the last {last}"
        case _ if participation.canary_repeats > 1:
            parts = count(participation.canary_repeats, "equal part")
            return f"drawn at random, one in each of {parts} of the run"
        case _:
            return "drawn at random"
