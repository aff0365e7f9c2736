"""The release that `fl-audit account` takes from options, without a config."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import msgspec

from fl_audit import accounting
from fl_audit.account.account_record import Source, check_delta_option, check_epsilon
from fl_audit.errors import InputError
from fl_audit.library_words import json_words
from fl_audit.mechanisms import (
    MECHANISMS,
    GaussianFixed,
    MatrixFactorisation,
    NoisyMechanism,
    TreeAggregation,
    mechanism_for_epsilon,
    round_noise,
)

_LARGEST_POPULATION = 10**6
"""Under `fixed_size` the rate is rounded to a fraction with at most this denominator.

A lower rate than one of this many counts as that, for which accounting gives an upper bound."""


SamplingOption = Literal["none", "poisson", "fixed_size", "shuffle"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options that describe a release, whose canaries participate as clients do.

    Attributes:
      noise_multiplier: The noise multiplier; None if it follows from `epsilon`.
      epsilon: The target epsilon; None for the stated noise.
      rounds: The number of rounds.
      sampling: How rounds draw their clients.
      rate: A client's probability of being in a round, for `poisson` and `fixed_size`.
      participations: The largest number of rounds of a client; under `shuffle`, the number of
        epochs, the nearly equal parts of the run (as by `participation.epochs`).
      separation: The least distance between two rounds of a client.
      mechanism: The kind of mechanism: gaussian_fixed, tree_aggregation or matrix_factorisation.
      keys: Further keys of the mechanism's table, by name.
    """

    noise_multiplier: float | None
    epsilon: float | None
    rounds: int
    sampling: SamplingOption
    rate: float | None
    participations: int | None
    separation: int | None
    mechanism: str
    keys: dict[str, Any]


_TABLES: dict[str, type[NoisyMechanism]] = {
    "gaussian_fixed": GaussianFixed,
    "tree_aggregation": TreeAggregation,
    "matrix_factorisation": MatrixFactorisation,
}


def source_of_options(options: Options, delta: float) -> Source:
    """The release that options describe."""
    check_delta_option(delta)
    _check_numbers(options)
    mechanism = _mechanism(options)
    kind = MECHANISMS.kind_of(mechanism)
    correlation = kind.correlation(mechanism, options.rounds)
    party = _party(options, correlation)
    release = accounting.Release(
        rounds=options.rounds,
        noise=kind.noise_distribution.noise(0.0, 0.0),
        denominator=accounting.Denominator(kind.divides_by, 1.0),
        client=party,
        canary=party,
        correlation=correlation,
    )
    try:
        if options.epsilon is not None:
            mechanism = mechanism_for_epsilon(mechanism, 1.0, release, delta)
        noise = round_noise(mechanism, 1.0)
    except InputError as error:
        said = str(error).replace("mechanism.epsilon", "--epsilon")
        raise InputError(
            said.replace("mechanism.noise_multiplier", "--noise-multiplier")
        ) from error
    return Source("these options", release.with_noise(noise), delta)


def _mechanism(options: Options) -> NoisyMechanism:
    """The mechanism's config table."""
    if options.epsilon is not None:
        check_epsilon(options.epsilon)
    noise = options.noise_multiplier
    if (noise is None) == (options.epsilon is None):
        raise InputError("--noise-multiplier: give this, or --epsilon to find the noise; not both")
    if noise is not None and not 0 <= noise < math.inf:
        raise InputError(f"--noise-multiplier {noise:g}: must be a finite number of at least 0")
    table = {
        "kind": options.mechanism,
        "clip_norm": 1.0,
        "noise_multiplier": noise,
        "epsilon": options.epsilon,
        **options.keys,
    }
    try:
        made: NoisyMechanism = msgspec.convert(table, _TABLES[options.mechanism])
    except msgspec.ValidationError as error:
        raise InputError(f"--mechanism {options.mechanism}: {json_words(error)}") from error
    return made


def _party(options: Options, correlation: accounting.Correlation | None) -> accounting.Party:
    """A client with the stated sampling."""
    sampling = _sampling(options)
    if correlation is None:
        return accounting.Party(sampling)
    if type(sampling) is accounting.FixedRounds:
        squared = correlation.min_separation(sampling.at_most, options.separation or 1)
        return accounting.Party(sampling, squared)
    return accounting.Party(sampling, sampling.worst_sensitivity(correlation))


def _sampling(options: Options) -> accounting.Sampling:
    rounds, rate = options.rounds, options.rate
    match options.sampling:
        case "none":
            most = -(-rounds // (options.separation or 1))
            return accounting.FixedRounds(min(options.participations or most, most))
        case "shuffle" if options.participations is not None:
            length, rest = divmod(rounds, options.participations)
            return accounting.OncePerBlock(options.participations, length, longer=rest)
        case "shuffle":
            raise InputError(
                "--participations: is required with --sampling shuffle (number of epochs)"
            )
        case "poisson" if rate is not None:
            return accounting.PoissonSampling(rate)
        case "fixed_size" if rate is not None:
            least = Fraction(1, _LARGEST_POPULATION)
            share = max(Fraction(rate), least).limit_denominator(_LARGEST_POPULATION)
            return accounting.FixedSizeSampling(share.numerator, share.denominator)
        case _:
            raise InputError(
                f"--rate: is required with --sampling {options.sampling}, such as 0.01"
            )


def _check_numbers(options: Options) -> None:
    """Raises InputError for options that are out of range or do not apply to the sampling."""
    if options.rounds < 1:
        raise InputError(f"--rounds {options.rounds}: must be at least 1")
    for name in ("participations", "separation"):
        value = getattr(options, name)
        if value is not None and not 1 <= value <= options.rounds:
            raise InputError(f"--{name} {value}: must be from 1 to the number of rounds")
    if options.rate is not None and not 0 < options.rate <= 1:
        raise InputError(f"--rate {options.rate:g}: must be in (0, 1]")
    is_drawn = options.sampling in ("poisson", "fixed_size")
    for name, fits in (
        ("rate", is_drawn),
        ("participations", not is_drawn),
        ("separation", options.sampling == "none"),
    ):
        if getattr(options, name) is not None and not fits:
            raise InputError(f"--{name}: does not fit --sampling {options.sampling}")
