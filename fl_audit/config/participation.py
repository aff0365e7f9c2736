"""Tables of participation patterns: who takes part when."""

from typing import Literal

from fl_audit.kinds.table import PositiveFloat, PositiveInt, Table


class DrawnParticipation(Table, frozen=True, kw_only=True):
    """What the patterns have in common whose canaries may take part otherwise than real clients.

    Attributes:
      rounds: rounds of training.
      clients_per_round: size of the real cohort.
      canary_repeats: under `canaries = "repeats"`, presentations of each included canary: one, at
        a round drawn at random, in each of that many equal parts of the run (Andrew et al.
        section 5.3).
      canary_last_rounds: under `canaries = "last_rounds"`, how many rounds those are.
      canary_mean_repeats: under `canaries = "last_rounds"`, mean of the Poisson number of
        presentations; by default the rounds that a real client takes part in on average.
    """

    rounds: PositiveInt
    clients_per_round: PositiveInt
    canary_repeats: PositiveInt = 1
    canary_last_rounds: PositiveInt | None = None
    canary_mean_repeats: PositiveFloat | None = None


class Shuffle(DrawnParticipation, frozen=True, kw_only=True, tag_field="kind", tag="shuffle"):
    """Each real client in exactly one round per epoch (Andrew et al. 2023, section 5).

    Attributes:
      clients_per_round: size of the real cohort at most; an epoch has as few rounds as that allows,
        and their sizes differ by at most one.
      canaries: `repeats`, each canary `canary_repeats` times in the run; `once_per_epoch`, once in
        every epoch of the real clients; `last_rounds`, a Poisson number of times at the end.
    """

    canaries: Literal["repeats", "once_per_epoch", "last_rounds"] = "repeats"


class Bernoulli(DrawnParticipation, frozen=True, kw_only=True, tag_field="kind", tag="bernoulli"):
    """Poisson sampling: each client, each included canary, in each round by its own coin.

    Attributes:
      clients_per_round: expected size of the real cohort; the coin's probability is this
        over the number of real clients.
      canaries: `like_clients`, by coins of the same probability; `repeats`, each canary
        `canary_repeats` times in the run; `last_rounds`, a Poisson number of times at the end.
    """

    canaries: Literal["like_clients", "repeats", "last_rounds"] = "like_clients"


class Uniform(DrawnParticipation, frozen=True, kw_only=True, tag_field="kind", tag="uniform"):
    """A cohort of fixed size in each round, drawn uniformly without replacement.

    Attributes:
      clients_per_round: size of the real cohort; with `like_clients` its expected size, because
        the draw is from real clients and canaries together.
      canaries: `like_clients`, drawn from the same urn, of which every round takes the same number;
        an excluded canary that is drawn sends nothing. `repeats`, each canary `canary_repeats`
        times in the run; `last_rounds`, a Poisson number of times at the end.
    """

    canaries: Literal["like_clients", "repeats", "last_rounds"] = "like_clients"


class EveryRound(Table, frozen=True, tag_field="kind", tag="every_round"):
    """Each real client and each included canary in every round.

    Attributes:
      rounds: rounds of training.
    """

    rounds: PositiveInt


class MinSeparation(Table, frozen=True, tag_field="kind", tag="min_separation"):
    """A client checks in at most every `separation` rounds, as DP-FTRL and banded matrices assume.

    Clients are split into as many groups, at random and for good; the groups take turns, and a
    round draws from its group uniformly without replacement (Choquette-Choo et al. 2023,
    arXiv:2306.08153, algorithm 2, with a cohort of fixed size).

    Attributes:
      rounds: rounds of training.
      clients_per_round: size of the real cohort; with `like_clients` its expected size, because
        the draw is from real clients and canaries together.
      separation: rounds from one participation to the next at least; 1 for none.
      canaries: `like_clients`, drawn from the same groups, where an excluded canary that is drawn
        sends nothing; `most_frequent`, in every round of a group.
    """

    rounds: PositiveInt
    clients_per_round: PositiveInt
    separation: PositiveInt
    canaries: Literal["like_clients", "most_frequent"] = "like_clients"


class Replay(Table, frozen=True, tag_field="kind", tag="replay"):
    """Real clients in the rounds that a production log says.

    Attributes:
      path: a CSV with the columns `round`, contiguous from 0 or 1, and `client_id`, as the task
        names its clients; a relative path starts at the config file's folder.
      rounds: use only the log's first this many; by default all.
      canaries: `like_clients`, each canary in the rounds of a client drawn at random from those of
        the log; `most_frequent`, in the rounds of the client that takes part most often, drawn
        at random where several do.
    """

    path: str
    rounds: PositiveInt | None = None
    canaries: Literal["like_clients", "most_frequent"] = "like_clients"


Participation = Shuffle | Bernoulli | Uniform | EveryRound | MinSeparation | Replay
