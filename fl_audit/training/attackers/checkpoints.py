"""The attacker who sees a model now and then."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fl_audit.attacks.over_rounds import over_logged_rounds
from fl_audit.attacks.statistics import CHECKPOINTS_MAX, CHECKPOINTS_SUM
from fl_audit.errors import InputError
from fl_audit.formats.atomic import atomic_writer
from fl_audit.formats.cosine_log import CosineLog
from fl_audit.formats.run_folder import RunFolder
from fl_audit.training.algorithm.round import flatten_weights
from fl_audit.training.attackers.attacker import Attacker, FloatArray, SeenRound, Weights
from fl_audit.training.run.prepare import PreparedRun


class CheckpointAttacker(Attacker):
    """Sees the models after rounds 0, n, 2n and so on, and the final one.

    Scores canaries by the differences of models seen one after the other; the last difference may
    span fewer than n rounds. Holds one model, and a second one while it compares.

    The state on disk is a log of the differences' cosines and, where the run's checkpoint lies
    between two released models, the earlier of the two.
    """

    def __init__(self, run: PreparedRun, folder: RunFolder, every: int, completed: int) -> None:
        """Attacks a run's canaries.

        Args:
          run: of `prepare`.
          folder: that holds what it remembers.
          every: n, the rounds between released models.
          completed: rounds that are done; what it remembered by then is read.

        Raises:
          InputError: what it should have remembered is missing or damaged.
        """
        self._run = run
        self._folder = folder
        self._every = every
        self._num_rounds = run.schedule.num_rounds
        num_steps = -(-self._num_rounds // every)
        num_canaries = len(run.included)
        log = CosineLog.at_round(completed, folder.release_cosines, num_steps, num_canaries)
        self._log = log
        self._completed = self._saved = completed
        self._released: npt.NDArray[np.float32] | None = None
        self._on_disk: int | None = None
        if self._is_between(completed):
            self._on_disk = self._release(completed)
            self._released = self._read_released(self._on_disk)

    def see_round(self, seen: SeenRound) -> None:
        """Remembers a model that is released, and scores by the next one."""
        if seen.index % self._every == 0:
            self._released = flatten_weights(seen.before)
        self._completed = seen.index + 1
        if self._released is not None and not self._is_between(self._completed):
            moved = flatten_weights(seen.after)
            moved -= self._released
            self._log.write_round(seen.index // self._every, self._run.family.cosines(moved))
            self._released = None

    def flush(self) -> None:
        """Writes the log and the model that the coming checkpoint will need."""
        self._log.flush()
        release = self._release(self._completed)
        self._remove_released(but={self._release(self._saved), release})
        if self._released is not None and release != self._on_disk:
            # A file of this name may be there, of a run that was killed: its noise was another.
            with atomic_writer(self._folder.released_model(release)) as file:
                np.save(file, self._released)
            self._on_disk = release
        self._saved = self._completed

    def scores(self, final: Weights) -> Mapping[str, FloatArray]:
        """Maximum and sum over the differences."""
        del final
        self._remove_released(but=set())
        steps = over_logged_rounds(self._log)
        return {CHECKPOINTS_MAX.name: steps.maximum, CHECKPOINTS_SUM.name: steps.total}

    def _is_between(self, completed: int) -> bool:
        """Whether the model after so many rounds is not released."""
        return completed % self._every != 0 and completed != self._num_rounds

    def _release(self, completed: int) -> int:
        """Rounds after which the last model before or then was released."""
        return completed - completed % self._every

    def _read_released(self, release: int) -> npt.NDArray[np.float32]:
        path = self._folder.released_model(release)
        try:
            model: npt.NDArray[np.float32] = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{path}: is not a released model: {error}") from error
        dim = self._run.task.classifier.dim
        if not isinstance(model, np.ndarray) or model.shape != (dim,) or model.dtype != np.float32:
            raise InputError(f"{path}: must be float32 of shape ({dim},)")
        return model

    def _remove_released(self, but: set[int]) -> None:
        kept = {self._folder.released_model(completed) for completed in but}
        for path in self._folder.released_models():
            if path not in kept:
                path.unlink()
