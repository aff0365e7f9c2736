"""The noise of a run whose config states the epsilon that it is to guarantee."""

import dataclasses

from fl_audit.accounting import NoisyRounds
from fl_audit.accounting.analytical import guarantee_to
from fl_audit.accounting.calibration import noise_multiplier_for
from fl_audit.accounting.guarantee import Guarantee
from fl_audit.accounting.noise_laws import noise_law_named
from fl_audit.errors import InputError
from fl_audit.mechanisms import Mechanism, NoisyMechanism, RoundNoise, round_noise


def mechanism_for_epsilon(
    mechanism: Mechanism, expected_cohort: float, rounds: NoisyRounds
) -> NoisyMechanism:
    """The mechanism with the least noise that guarantees clients the epsilon that it states.

    Args:
      mechanism: The mechanism table of a config, with an epsilon.
      expected_cohort: The expected number of clients and canaries in a round.
      rounds: The facts of the run, whose noise does not count.

    Raises:
      InputError: No epsilon is known of such a run, or no noise that its keys allow is enough.
    """
    if not isinstance(mechanism, NoisyMechanism) or mechanism.epsilon is None:
        raise InputError("mechanism.epsilon: this kind of mechanism has no noise to find")
    _check_known(rounds)

    def epsilon_of(multiplier: float) -> float | None:
        try:
            noise = round_noise(mechanism.with_multiplier(multiplier), expected_cohort)
        except InputError:
            # It cannot be added so; how much would be needed is said when it is refused.
            noise = RoundNoise(multiplier, multiplier, 0.0)
        return _to_client(rounds, noise).epsilon

    try:
        found = mechanism.with_multiplier(noise_multiplier_for(mechanism.epsilon, epsilon_of))
        round_noise(found, expected_cohort)
    except InputError as error:
        raise InputError(f"mechanism.epsilon: {mechanism.epsilon:g}: {error}") from error
    return found


def _check_known(rounds: NoisyRounds) -> None:
    """Raises an `InputError` where no accountant knows the epsilon of any noise."""
    guarantee = _to_client(rounds, RoundNoise(1.0, 1.0, 0.0))
    if guarantee.epsilon is None:
        reasons = "; ".join(by.reason for by in guarantee.by_accountant if by.reason)
        raise InputError(f"mechanism.epsilon: no analytical epsilon is known here: {reasons}")


def _to_client(rounds: NoisyRounds, noise: RoundNoise) -> Guarantee:
    noised = dataclasses.replace(rounds, **dataclasses.asdict(noise))
    return guarantee_to(noised, noise_law_named(noised.noise_law), noised.client)
