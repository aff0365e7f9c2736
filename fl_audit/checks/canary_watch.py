"""The canary check during training: it warns of lost canaries, or ends the training.

`CanaryWatch` repeats the check after 1, 2, 4, 8, 16 … scored rounds, so that a run with lost
canaries, which would show nothing, can end early. All repetitions cost as much as two checks after
the last round. Each repetition has an equal share of `CANARY_CHECK_FALSE_ALARM`, so that the
probability of stopping a correct system is at most `CANARY_CHECK_FALSE_ALARM`.
"""

import typing
from collections.abc import Callable

from fl_audit.checks.canary_check import CANARY_CHECK_FALSE_ALARM, CanaryCheck
from fl_audit.config_tables.audit import LostCanaries
from fl_audit.errors import InputError


class CanariesLostError(InputError):
    """Raised if canaries do not reach the aggregates of a training as they should."""


def check_choice(lost_canaries: str) -> None:
    """Raises InputError if the argument is not a value of `LostCanaries`."""
    if lost_canaries not in typing.get_args(LostCanaries):
        raise InputError(f"lost_canaries: must be 'error' or 'warn', got {lost_canaries!r}")


def looks(num_rounds: int) -> list[int]:
    """The numbers of scored rounds after which canaries are checked.

    >>> looks(20)
    [1, 2, 4, 8, 16]
    """
    return [1 << power for power in range(num_rounds.bit_length())]


class CanaryWatch:
    """Repeats the canary check during training, and reports the first failure."""

    def __init__(
        self,
        num_rounds: int,
        *,
        choice: LostCanaries,
        warn: Callable[[str], None],
        key: str,
        scored: int = 0,
    ) -> None:
        """Starts after `scored` rounds, for which no look is due any more.

        Args:
          num_rounds: The largest number of rounds.
          choice: What a failure causes: "warn" a call of `warn`, "error" a CanariesLostError.
          key: The name of the choice in the config or call, such as "audit.lost_canaries".
        """
        check_choice(choice)
        at = looks(num_rounds)
        self._looks = {look for look in at if look > scored}
        self._false_alarm = CANARY_CHECK_FALSE_ALARM / len(at)
        self._choice = choice
        self._warn = warn
        self._key = key

    def see(
        self, num_scored: int, round_number: int, check: Callable[[float], CanaryCheck | None]
    ) -> None:
        """Checks all rounds so far if a look is due; warns of a failure, or raises, by choice."""
        if num_scored not in self._looks:
            return
        self._looks.discard(num_scored)
        canary_check = check(self._false_alarm)
        if canary_check is None or canary_check.state != "not_arrived":
            return
        self._looks.clear()
        rounds = "round 1" if round_number == 1 else f"rounds 1 to {round_number}"
        line = (
            f"the canary check fails in {rounds}: {canary_check.fault or canary_check.reason}. No "
            "verdict on this training will be consistent: fix the fault and start anew, or train on"
        )
        # Canaries that are too long are no error: they may well contradict a claim.
        if self._choice == "error" and not canary_check.is_longer:
            raise CanariesLostError(f"{line} with {self._key} = 'warn'")
        self._warn(line)
