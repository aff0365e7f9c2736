"""The least noise of a mechanism for a stated epsilon."""

from fl_audit.accounting.analytical import guarantee_to, noise_multiplier_for
from fl_audit.accounting.release import Release
from fl_audit.errors import InputError
from fl_audit.mechanisms.kind import Mechanism, NoisyMechanism
from fl_audit.mechanisms.mechanism_of_run import MECHANISMS, round_noise


def mechanism_for_epsilon(
    mechanism: Mechanism, expected_cohort: float, release: Release, delta: float
) -> NoisyMechanism:
    """The mechanism with the least noise whose upper bound for clients is its stated epsilon.

    Args:
      mechanism: The mechanism table of a config, with an epsilon.
      expected_cohort: The expected number of clients and canaries in a round.
      release: The run's release; its noise is ignored.
      delta: The delta of the epsilon, in (0, 1).

    Raises:
      InputError: No accountant covers such a run, or no noise that its keys allow suffices.
    """
    if not isinstance(mechanism, NoisyMechanism) or mechanism.epsilon is None:
        raise InputError("mechanism.epsilon: this kind of mechanism has no noise to find")
    distribution = MECHANISMS.kind_of(mechanism).noise_distribution

    def epsilon_of(multiplier: float) -> float:
        try:
            noise = round_noise(mechanism.with_multiplier(multiplier), expected_cohort)
        except InputError:
            # The kind cannot add so much noise; its error message says how much is needed.
            noise = distribution.noise(multiplier, multiplier)
        noised = release.with_noise(noise)
        guarantee = guarantee_to(noised, noised.client, delta)
        if guarantee.epsilon is None:
            reasons = "; ".join(by.reason for by in guarantee.by_accountant if by.reason)
            raise InputError(f"no analytical epsilon is known here: {reasons}")
        return guarantee.epsilon

    try:
        solved = mechanism.with_multiplier(noise_multiplier_for(mechanism.epsilon, epsilon_of))
        round_noise(solved, expected_cohort)
    except InputError as error:
        raise InputError(f"mechanism.epsilon: {mechanism.epsilon:g}: {error}") from error
    return solved
