"""Memory of clients in the state: the next rounds may release nothing more of them."""

from collections.abc import Sequence

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.checks.replay.changes import Ruler
from fl_audit.checks.replay.trial_rounds import (
    Answer,
    Finding,
    TrialRounds,
    failed,
    held,
    inconclusive,
)

_ROUNDS = 2
"""The number of rounds that follow: what is kept for one round shows in the second."""


def memory_finding(
    rounds: TrialRounds, answers: Sequence[Answer], few: Sequence[FloatArray], ruler: Ruler
) -> Finding:
    """Compares rounds of the smallest cohort after the recorded one and after one without clients.

    They may differ in the size of their noise, if the clip norm follows the updates. Any other
    difference releases something of the clients again; that is no loss if their own round's noise
    comes with it, as in momentum of noised sums. `answers` are the round with all clients, the one
    without them with the same noise, and that with other noise.
    """
    name = "memory"
    expected = "later rounds release nothing more of a client, but together with its round's noise"
    along_noise = 0.0
    for after in range(1, _ROUNDS + 1):
        later = [_Later(rounds, answer, few, 2 * after) for answer in answers]
        if not all(np.isfinite(following.release).all() for following in later):
            return failed(name, expected, f"{_when(after)}: numbers that are not finite")
        rounding = 3 * ruler.rounding(float(np.linalg.norm(later[0].release)))
        remainder, sums = later[0].excess(later[1], answers[0], answers[1])
        of_noise, noise = later[2].excess(later[1], answers[2], answers[1])
        answers = [following.answer for following in later]
        if np.linalg.norm(remainder) <= rounding:
            continue
        square = float(noise @ noise)
        weight = float(of_noise @ noise) / square if square else 0.0
        bare = float(np.linalg.norm(remainder - weight * sums))
        unexplained = float(np.linalg.norm(of_noise - weight * noise))
        if bare <= rounding + 1e-3 * float(np.linalg.norm(remainder)):
            along_noise = weight
        elif unexplained <= rounding + 1e-3 * float(np.linalg.norm(of_noise)):
            most = bare / ruler.promise.sensitivity
            words = f"{_when(after)} a change of {most:.3g} times what one client may change"
            return failed(name, expected, words)
        else:
            why = f"{_when(after)} the round's noise comes back, but not as a multiple of itself"
            return inconclusive(name, expected, why)
    words = f"so, in {_ROUNDS} rounds that follow"
    if along_noise:
        words = f"{words}: what comes back has its noise with it, last {along_noise:.3g} times"
    return held(name, expected, words)


class _Later:
    """A round of the smallest cohort that follows another, under two seeds."""

    def __init__(
        self, rounds: TrialRounds, before: Answer, few: Sequence[FloatArray], seed: int
    ) -> None:
        self.answer = rounds.go_on(before.state, few, seed)
        self.release = self.answer.release
        self._under_other_seed = lambda: rounds.go_on(before.state, few, seed + 1).release

    def excess(
        self, quiet: "_Later", before: Answer, before_quiet: Answer
    ) -> tuple[FloatArray, FloatArray]:
        """Excess over an idle round, and the same for earlier rounds.

        Noise may be a multiple of the idle round's, if the clip norm follows the updates. The
        growth of the noise between two seeds is subtracted from both. `quiet` follows the idle
        round `before_quiet`, under the same seeds.
        """
        excess, last = self.release - quiet.release, before.release - before_quiet.release
        if not excess.any():
            return excess, last
        other = quiet._under_other_seed()
        noise = quiet.release - other
        square = float(noise @ noise)
        of_other = self._under_other_seed() - other
        grown = float((excess - of_other) @ noise) / square if square else 0.0
        return excess - grown * quiet.release, last - grown * before_quiet.release


def _when(rounds: int) -> str:
    return "in the next round" if rounds == 1 else f"{rounds} rounds later"
