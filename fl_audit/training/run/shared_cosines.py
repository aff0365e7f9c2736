"""The cosines of canaries with each round's aggregate, as observers are shown them."""

import numpy as np

from fl_audit.array_types import IndexArray
from fl_audit.training.attackers.context import TrainingContext
from fl_audit.training.observers.observer import CanaryCosines


class SharedCosines:
    """The cosines that attackers keep in one log; there are none where no attacker keeps one."""

    def __init__(self, context: TrainingContext) -> None:
        """Opens the log.

        Args:
          context: The context that the run's attackers were made from.
        """
        has_log = context.run_folder.round_cosines.exists()
        self._log = context.round_cosines if has_log else None
        self._included = context.run.included

    def of(self, index: int, members: IndexArray) -> CanaryCosines | None:
        """The cosines of one round; None where it is not scored.

        Args:
          index: The round, counted from 0.
          members: The canaries that took part in it.
        """
        scored = None if self._log is None else self._log.scored_round(index)
        if scored is None:
            return None
        cosines = scored.cosines.astype(np.float64)
        return CanaryCosines(in_round=cosines[members], excluded=cosines[~self._included])
