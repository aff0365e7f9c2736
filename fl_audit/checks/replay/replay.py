"""Replay of a recorded round, with one thing changed and the noise held fixed.

A mechanism promises that one client changes a release by at most a known amount (`Promise`). With
the same randomness the noise of two rounds cancels, so the effect of a client is measured directly,
without canaries or statistics, and compared with the largest allowed effect.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.checks.check import Check, compared, failed, inconclusive
from fl_audit.checks.replay.changes import (
    Change,
    Ruler,
    at_most,
    every_client,
    half_precision,
    memory_finding,
)
from fl_audit.checks.replay.clip import ClipNormOf, ClipQuestions, ZeroingNormOf, zeroing_finding
from fl_audit.checks.replay.noise import NoiseQuestions
from fl_audit.checks.replay.trial_rounds import (
    Answer,
    Promise,
    Server,
    Trial,
    TrialRounds,
    Trials,
    Update,
    flat,
)
from fl_audit.errors import InputError

_ROUNDING = 8 * float(np.finfo(np.float32).eps)
"""The relative error of float32 sums in a release."""


@dataclass(frozen=True, eq=False)
class Replay:
    """The outcome of a replay.

    Attributes:
      findings: Expected and measured values, question by question.
      sensitivity: How far the release moves if the first client is left out: the norm in each
        variable, then in the whole, float64 of shape (variables + 1,); NaN if the round cannot be
        repeated, or fails without this client.
    """

    findings: tuple[Check, ...]
    sensitivity: FloatArray

    @property
    def passed(self) -> bool:
        """Whether no finding contradicts the promise."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the findings that failed."""
        return tuple(finding.name for finding in self.findings if finding.failed)

    @property
    def inconclusive(self) -> tuple[str, ...]:
        """The names of the questions that could not be answered."""
        return tuple(finding.name for finding in self.findings if not finding.is_conclusive)

    def __str__(self) -> str:
        """A line for each finding."""
        return "\n".join(map(str, self.findings))


def replay_round(
    function: Server,
    state: Any,
    updates: Sequence[Update],
    seed: int,
    promise: Promise,
    *,
    begun: tuple[Any, Any] | None = None,
    clip_norm_of: ClipNormOf | None = None,
    zeroing_norm_of: ZeroingNormOf | None = None,
) -> Replay:
    """Computes a round many times, with one thing changed each time.

    The rounds are: the recorded one, twice; without its first, a middle and its last client; with a
    single client whose update is short, long, or long in one variable; with clients that differ in
    norm and direction; with more clients than the denominator; with a NaN in an update; and the
    next round, under several seeds. For correlated noise up to 32 rounds are computed twice; for an
    adaptive clip norm up to 96 rounds measure the noise of the clipped-client count that updates
    the clip norm.

    Args:
      function: The server's round (`Server`), which takes all randomness from the generator in its
        arguments.
      state: The state before the round; it is copied for each round.
      updates: The clients' updates, at least 2, each a sequence of arrays, one for each variable of
        the model.
      seed: The seed of the round's generator, at least 0.
      promise: The mechanism's promise.
      begun: Two states from before the first round, with different randomness, for a server whose
        state, not its generator, determines future noise; questions on noise that start one state
        with several seeds are then left out.
      clip_norm_of: A function from a state to the clip norm of the next round; required if the
        promise has an `adaptive_clip`.
      zeroing_norm_of: A function from a state to the zeroing norm of the next round; required if
        the promise has an `adaptive_zeroing`.

    Returns:
      The findings; only the first one if the round cannot be repeated.

    Raises:
      InputError: There are fewer than two updates; updates differ in shape, are zero or are not
        finite; the release and an update differ in size; or an adaptive clip or zeroing is
        promised and the function that reads its norm is missing.
    """
    if promise.adaptive_clip is not None and clip_norm_of is None:
        raise InputError("clip_norm_of: is missing; a promise with adaptive_clip needs it")
    zeroing = promise.adaptive_zeroing
    if zeroing is not None and zeroing_norm_of is None:
        raise InputError("zeroing_norm_of: is missing; a promise with adaptive_zeroing needs it")
    vectors = _checked(updates)
    rounds = TrialRounds(function, state, updates[0], seed)
    recorded = rounds.run(vectors)
    ruler = Ruler(rounds.sizes, promise, max(_ROUNDING, half_precision(recorded.release)))
    again = _repeatable(rounds.run(vectors).release - recorded.release, recorded, ruler)
    if again.failed:
        return Replay((again,), np.full(len(rounds.sizes) + 1, np.nan))
    trials = Trials(vectors, rounds.sizes, promise)
    replayed = _Replayed(rounds, trials, recorded, ruler, begun, clip_norm_of)
    clients, changes = replayed.client_findings()
    of_all = [ruler.lengths(change.vector) for change in changes if _is_finite(change.vector)]
    touched = np.max([np.zeros(len(rounds.sizes) + 1), *of_all], axis=0)[:-1] > 0
    sensitivity = np.full(len(rounds.sizes) + 1, np.nan)
    for change in changes:
        if change.trial.cohort is vectors and change.trial.left == 0:
            sensitivity = ruler.lengths(change.vector)
    findings = [again, *clients, *replayed.noise_findings(touched)]
    if zeroing is not None and zeroing_norm_of is not None:
        findings.append(zeroing_finding(rounds, trials, zeroing, zeroing_norm_of))
    return Replay(tuple(findings), sensitivity)


def _checked(updates: Sequence[Update]) -> list[FloatArray]:
    """The updates as vectors; refuses unsuitable ones."""
    if len(updates) < 2:
        raise InputError(f"updates: must be at least 2, got {len(updates)}")
    shapes = [[np.shape(part) for part in update] for update in updates]
    for number, shape in enumerate(shapes, start=1):
        if shape != shapes[0] or not shape:
            raise InputError(f"updates: number {number} has shapes {shape}, the first {shapes[0]}")
    vectors = [flat(update) for update in updates]
    for number, vector in enumerate(vectors, start=1):
        if not np.isfinite(vector).all() or not vector.any():
            raise InputError(f"updates: number {number} must be finite and not all zeros")
    return vectors


def _is_finite(vector: FloatArray) -> bool:
    return bool(np.isfinite(vector).all())


def _repeatable(difference: FloatArray, recorded: Answer, ruler: Ruler) -> Check:
    """Whether the same seed gives the same round."""
    expected = "the same round with the same seed gives the same release"
    length = float(np.linalg.norm(difference))
    if not _is_finite(recorded.release):
        return failed("repeatable", expected, "numbers that are not finite")
    if length <= ruler.rounding(float(np.linalg.norm(recorded.release))):
        return compared("repeatable", expected, "the same release")
    return failed(
        "repeatable", expected, f"another release, which differs by {ruler.times(length)}"
    )


@dataclass(eq=False)
class _Replayed:
    """The questions of a replay about a repeatable round."""

    rounds: TrialRounds
    trials: Trials
    recorded: Answer
    ruler: Ruler
    begun: tuple[Any, Any] | None
    clip_norm_of: ClipNormOf | None

    def __post_init__(self) -> None:
        self._last = (self.trials.vectors, self.recorded.release)
        self._is_silenced = False
        self._is_silenced = self._draws_for_clients()

    def _draws_for_clients(self) -> bool:
        """Whether leaving out a client changes the noise.

        It does for a server that draws numbers for each client before the noise. In further rounds
        the clients of such a server send zeros instead of being left out.
        """
        vectors = self.trials.vectors
        last = Trial("", vectors, len(vectors) - 1)
        fewer = self.rounds.run(self._without(last))
        if fewer.draws == self.recorded.draws:
            return False
        difference = self.recorded.release - fewer.release
        magnitude = float(np.linalg.norm(self.recorded.release))
        return self.ruler.judge(Change(last, difference, magnitude)).outcome == "failed"

    def _without(self, trial: Trial) -> list[FloatArray]:
        """The cohort of a trial without the client to leave out, or with zeros as its update.

        With zeros the server draws the same numbers for later clients.
        """
        before, after = trial.cohort[: trial.left], trial.cohort[trial.left + 1 :]
        is_silent = self._is_silenced or (after and self.recorded.spawned)
        return [*before, *([np.zeros(self.rounds.dim)] if is_silent else []), *after]

    def _change(self, trial: Trial) -> Change:
        with np.errstate(all="ignore"):
            if trial.cohort is not self._last[0]:
                self._last = (trial.cohort, self.rounds.run(trial.cohort).release)
            whole, rest = self._last[1], self.rounds.run(self._without(trial)).release
        magnitude = max(float(np.linalg.norm(whole)), float(np.linalg.norm(rest)))
        return Change(trial, whole - rest, magnitude)

    def client_findings(self) -> tuple[list[Check], list[Change]]:
        """The findings on the effect of one client, and the changes of all trials."""
        trials = self.trials
        at_most_clip = "changes at most the clip norm over the denominator"
        questions = (
            ("one_client", f"a client {at_most_clip}", trials.recorded()),
            ("clip", f"a client alone, short, long or long in one variable, {at_most_clip}",
             trials.alone()),
            ("unlike", f"a client among others of other norms and directions {at_most_clip}",
             trials.unlike()),
            ("denominator", f"a client among few or many others {at_most_clip}",
             trials.opposed()),
        )  # fmt: skip
        answers = [at_most(*question, self._change, self.ruler) for question in questions]
        findings = [finding for finding, _ in answers]
        findings[-1] = self._beyond_denominator(findings[-1])
        return [*findings, self._not_finite()], [change for _, some in answers for change in some]

    def _beyond_denominator(self, finding: Check) -> Check:
        """The finding on the denominator; inconclusive if no larger cohort was possible."""
        if finding.failed:
            return finding
        if self.trials.many is None:
            why = "a cohort larger than the denominator needs too much memory"
        elif self._is_silenced:
            why = (
                "the server draws from the noise's generator for each client, so the number of "
                "clients must stay the same"
            )
        else:
            return finding
        return inconclusive(finding.name, finding.meaning, f"{finding.measured}, but {why}")

    def _not_finite(self) -> Check:
        """The effect of a NaN in one client's update, for which nothing is promised."""
        name, expected = "not_finite", "an update with a NaN changes no more than one client may"
        vectors = self.trials.vectors
        poison = vectors[-1].copy()
        poison[0] = np.nan
        trial = Trial("", [*vectors[:-1], poison], len(vectors) - 1)
        try:
            change = self._change(trial)
        except Exception as error:  # a server may refuse a round in any way
            return compared(name, expected, f"refused, {type(error).__name__}", ratio=0.0)
        if not _is_finite(change.vector):
            why = "one NaN makes the release NaN: the promise is for finite updates alone"
            return inconclusive(name, expected, why)
        length = float(np.linalg.norm(change.vector))
        words = self.ruler.times(length)
        judged = self.ruler.judge(Change(Trial("", vectors, 0), change.vector, change.magnitude))
        if judged.outcome == "failed":
            why = f"one NaN changes {words}: the promise is for finite updates alone"
            return inconclusive(name, expected, why)
        return compared(name, expected, words, ratio=length / self.ruler.promise.sensitivity)

    def noise_findings(self, touched: FloatArray) -> Iterator[Check]:
        """The findings from the smallest round, which is mostly noise."""
        name = "smallest_round"
        words = f"a round of {len(self.trials.few)} clients releases their sum with noise"
        try:
            smallest = self.rounds.run(self.trials.few)
        except InputError:
            raise
        except Exception as error:
            yield failed(name, words, f"{type(error).__name__}: {error}")
            return
        if not _is_finite(smallest.release):
            yield failed(name, words, "numbers that are not finite")
            return
        idle = self._idle() if self._is_silenced else smallest
        members = self.trials.vectors[len(self.trials.few) :]
        if members and _is_finite(idle.release):
            yield every_client(self.recorded.release - idle.release, members, self.ruler)
        if self.recorded.state is not None:
            other = self._idle(1) if self._is_silenced else self.rounds.run(self.trials.few, 1)
            answers = (self.recorded, idle, other)
            yield memory_finding(self.rounds, answers, self.trials.few, self.ruler)
        noise = NoiseQuestions(
            self.rounds, self.trials, self.recorded, self.ruler, self._without, self.begun
        )
        yield from noise.findings(touched)
        clip = self.ruler.promise.adaptive_clip
        if clip is not None and self.clip_norm_of is not None:
            yield from ClipQuestions(
                self.rounds, self.trials, self.ruler, clip, self.clip_norm_of, self._is_silenced
            ).findings(touched)

    def _idle(self, other_seed: int = 0) -> Answer:
        """The recorded round, with zeros from clients beyond the smallest cohort."""
        silent = len(self.trials.vectors) - len(self.trials.few)
        zeros = [np.zeros(self.rounds.dim)] * silent
        with np.errstate(all="ignore"):
            return self.rounds.run([*self.trials.few, *zeros], other_seed)
