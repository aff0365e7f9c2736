"""The TOML config of a run, as typed, frozen records checked at the door.

A config is one table per concern. `kind` selects the variant of a task, a participation
pattern or a mechanism, and each variant knows only its own keys.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

PositiveInt = Annotated[int, Meta(ge=1)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
PositiveFloat = Annotated[float, Meta(gt=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
OpenUnitFloat = Annotated[float, Meta(gt=0, lt=1)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is in brackets in the file."""


class DigitsTask(Table, frozen=True, tag_field="kind", tag="digits"):
    """Handwritten digits of scikit-learn (1,797 images of 8 x 8), split over clients at random.

    Attributes:
      num_clients: number of real clients; 1,500 images train, so at most 1,500.
      hidden: widths of the dense layers between the 64 pixels and the 10 classes.
    """

    num_clients: Annotated[int, Meta(ge=1, le=1500)] = 300
    hidden: tuple[PositiveInt, ...] = (512, 256)


class NextWordTask(Table, frozen=True, kw_only=True):
    """What the next-word tasks have in common: the sizes of the model of Reddi et al. 2020.

    Attributes:
      vocabulary_size: most frequent words kept; four special tokens come on top.
      sequence_length: tokens a sentence is cut or padded to.
      embedding_size: width of the embedding and of the dense layer before the output.
      lstm_size: units of the LSTM.
      max_sequences_per_client: sentences of one client used in a round, drawn anew each time.
    """

    vocabulary_size: PositiveInt = 10_000
    sequence_length: PositiveInt = 20
    embedding_size: PositiveInt = 96
    lstm_size: PositiveInt = 670
    max_sequences_per_client: PositiveInt = 64


class TextTask(NextWordTask, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """Next-word prediction on any `client_id,text` CSV, with a vocabulary built from it.

    Attributes:
      path: the CSV; a relative path starts at the config file's folder.
    """

    path: str


class StackOverflowTask(NextWordTask, frozen=True, tag_field="kind", tag="stackoverflow"):
    """Stack Overflow next-word prediction (Reddi et al. 2020), 342,477 clients.

    Attributes:
      max_clients: use only the first this many clients; 0 means all of them.
      path: the SQLite file that TFF downloads, where it is at hand already; a relative path
        starts at the config file's folder. Without it TFF downloads it.
      word_counts: likewise TFF's `stackoverflow.word_count`, a line `word count` per word, most
        frequent first.
    """

    max_clients: NonNegativeInt = 0
    path: str | None = None
    word_counts: str | None = None


class EmnistTask(Table, frozen=True, tag_field="kind", tag="emnist"):
    """EMNIST's 62 classes by writer with the CNN of Reddi et al. 2020.

    Attributes:
      max_clients: use only the first this many clients; 0 means all 3,400 of them.
      path: the SQLite file that TFF downloads, where it is at hand already; a relative path
        starts at the config file's folder. Without it TFF downloads it.
    """

    max_clients: NonNegativeInt = 0
    path: str | None = None


Task = DigitsTask | TextTask | StackOverflowTask | EmnistTask


class Client(Table, frozen=True):
    """What a real client does in a round: plain SGD on its own examples.

    Attributes:
      learning_rate: of the local SGD.
      batch_size: examples a step.
      epochs: passes over the client's examples.
    """

    learning_rate: PositiveFloat = 0.1
    batch_size: PositiveInt = 16
    epochs: PositiveInt = 1


class Server(Table, frozen=True):
    """How the server applies an aggregate: SGD, with momentum where it is not 0."""

    learning_rate: PositiveFloat = 1.0
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0


class GaussianAdaptive(Table, frozen=True, tag_field="kind", tag="gaussian_adaptive"):
    """Gaussian noise and a clip norm that follows a quantile (Andrew et al. 2021).

    Attributes:
      noise_multiplier: the *effective total* one: the noise on the sum of updates is somewhat
        larger, to pay for the noised count that moves the clip norm. 0 means no noise at all.
      clip_norm: the first round's clip norm.
      target_quantile: share of updates that should be below the clip norm.
      clip_learning_rate: of the geometric update of the clip norm.
      clipped_count_stddev: noise on the count, in clients; by default 0.05 of the cohort.
    """

    noise_multiplier: NonNegativeFloat
    clip_norm: PositiveFloat = 0.1
    target_quantile: Annotated[float, Meta(ge=0, le=1)] = 0.5
    clip_learning_rate: NonNegativeFloat = 0.2
    clipped_count_stddev: PositiveFloat | None = None


class GaussianFixed(Table, frozen=True, tag_field="kind", tag="gaussian_fixed"):
    """Gaussian noise at a fixed clip norm.

    Attributes:
      noise_multiplier: noise on the sum of updates, as a multiple of the clip norm.
      clip_norm: the L2 norm that updates are clipped to.
    """

    noise_multiplier: NonNegativeFloat
    clip_norm: PositiveFloat


Mechanism = GaussianAdaptive | GaussianFixed


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


class Canaries(Table, frozen=True):
    """The canary pool, of which a fair coin includes each (Steinke et al. Algorithm 1).

    Attributes:
      count: size of the pool, included and excluded together.
      max_per_round: canaries that a round may hold on average. Each is an update as long as the
        model, and where they outnumber the real clients the model learns little.
      family: law of the vectors.
      store: where gaussian vectors are kept, rounded to 16 bits a coordinate, instead of being
        made anew for every score; 2 x count x parameters bytes.
      store_path: the file of a store on disk; one that is there is used if it is of this pool. A
        relative path starts at the config file's folder.
    """

    count: Annotated[int, Meta(ge=2)]
    max_per_round: PositiveInt = 200
    family: Literal["gaussian", "rademacher", "hadamard"] = "rademacher"
    store: Literal["none", "memory", "disk"] = "none"
    store_path: str | None = None


class Audit(Table, frozen=True):
    """What the estimates are computed at, and the claim that they are held against.

    Attributes:
      delta: of (epsilon, delta)-DP; by default `claimed_delta`, else N^-1.1 for N real clients
        (Andrew et al. section 5).
      confidence: of each lower bound, and of the verdict as a whole.
      claimed_epsilon: what the run is said to guarantee to a client; without it no verdict.
      claimed_delta: at which; by default `delta`. A bound at another delta says nothing about the
        claim, so the two may not differ.
      verdict_statistic: the only statistic that the verdict looks at, or all.
      verdict_method: the only method that it looks at, or all that hold for any mechanism.
    """

    delta: OpenUnitFloat | None = None
    confidence: OpenUnitFloat = 0.95
    claimed_epsilon: Annotated[float, Meta(gt=0, le=300)] | None = None
    claimed_delta: OpenUnitFloat | None = None
    verdict_statistic: Literal["all", "final", "final_minus_initial", "max", "sum"] = "all"
    verdict_method: Literal["all", "threshold_valid", "one_run_valid"] = "all"

    def __post_init__(self) -> None:
        """Checks what is said of a claim, and that there is one delta."""
        if self.claimed_epsilon is None:
            for key in ("claimed_delta", "verdict_statistic", "verdict_method"):
                if getattr(self, key) not in (None, "all"):
                    raise ValueError(f"{key} needs claimed_epsilon")
        if self.claimed_delta is None:
            return
        if self.delta not in (None, self.claimed_delta):
            raise ValueError(
                f"claimed_delta is {self.claimed_delta:g} and delta {self.delta:g}; they must be "
                "equal, as a bound at another delta says nothing about the claim: leave out one"
            )
        msgspec.structs.force_setattr(self, "delta", self.claimed_delta)


class Log(Table, frozen=True):
    """How often a run writes things down, in rounds.

    Attributes:
      checkpoint_every: rounds between checkpoints.
      evaluate_every: rounds between evaluations on held-out data.
    """

    checkpoint_every: PositiveInt = 10
    evaluate_every: PositiveInt = 10


class Config(Table, frozen=True):
    """Everything that defines a run.

    Attributes:
      runtime: what runs TFF's process: `local` in this Python process, on a GPU where there is one;
        `native` in TFF's C++ worker, on CPUs; `auto` is `local` where it can run the process.
      clients_per_block: real clients that train at once under `local`; by default as many as suit
        the device and the model. More than 1 trains in batched operations, with the same
        updates to rounding.
    """

    task: Task
    mechanism: Mechanism
    participation: Participation
    canaries: Canaries
    seed: NonNegativeInt = 0
    runtime: Literal["auto", "local", "native"] = "auto"
    clients_per_block: PositiveInt | None = None
    client: Client = Client()
    server: Server = Server()
    audit: Audit = Audit()
    log: Log = Log()
