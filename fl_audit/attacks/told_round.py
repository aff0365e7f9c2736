"""What a server says of a round beside its aggregate, and the log of lengths."""

import math
from dataclasses import dataclass

import numpy as np

from fl_audit.errors import InputError
from fl_audit.formats.log_folder import LogFolder
from fl_audit.formats.mapped_log import MappedArray, create_log, open_log
from fl_audit.mechanism_checks.watch import check_noise


@dataclass(frozen=True)
class ToldRound:
    """What a server says of a round's mechanism, as `RoundScorer.score_round` takes it.

    Raises:
      InputError: A number is out of range, or there is a norm bound alone.
    """

    canary_length: float | None
    noise_stddev: float | None
    norm_bound: float | None

    def __post_init__(self) -> None:
        """Refuses numbers that cannot be."""
        if self.canary_length is not None and not 0 < self.canary_length < math.inf:
            raise InputError(
                f"canary_length: must be positive and finite, got {self.canary_length}"
            )
        if self.noise_stddev is not None:
            check_noise(self.noise_stddev, self.norm_bound)
        elif self.norm_bound is not None:
            raise InputError("noise_stddev: must be handed over where norm_bound is")


def length_log(folder: LogFolder, num_rounds: int) -> MappedArray:
    """The lengths of rounds, to be written on; a new log in a folder of an older version.

    Raises:
      InputError: The file is damaged or of another shape.
    """
    path, shape = folder.round_lengths, (num_rounds, 2)
    if not path.exists():
        return create_log(path, np.float64, shape)
    return open_log(path, "r+", np.float64, shape, "lengths")
