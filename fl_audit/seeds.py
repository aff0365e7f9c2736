"""Independent random streams of one run, each a function of the run's seed and a purpose."""

import enum

import numpy as np


class Stream(enum.IntEnum):
    """The purposes of random streams; the values are part of a run's identity."""

    INCLUSION = 0
    CANARY_VECTOR = 1
    CANARY_ROUNDS = 2
    CLIENT_ROUNDS = 3
    LOCAL_ORDER = 4
    INITIAL_WEIGHTS = 5
    PARTITION = 6
    RELEASE_TRIAL = 7
    HADAMARD_SIGNS = 8
    HADAMARD_SHUFFLES = 9
    CANARY_EXAMPLES = 10
    WRONG_LABELS = 11
    CANARY_ORDER = 12
    SKETCH = 13
    CANARY_ARMS = 14
    STAND_IN_UPLOAD = 15
    STAND_INS = 16
    DROPOUTS = 17
    MODEL_WEIGHTS = 20
    MODEL_ORDER = 21
    MODEL_NOISE = 22
    MODEL_POINTS = 23


def sequence(seed: int, stream: Stream, *index: int) -> np.random.SeedSequence:
    """The seed sequence of one stream, or of its `index`-th member (a round, a canary, ...)."""
    return np.random.SeedSequence(entropy=seed, spawn_key=(int(stream), *index))


def generator(seed: int, stream: Stream, *index: int) -> np.random.Generator:
    """A generator over one stream, or over its `index`-th member."""
    return np.random.Generator(np.random.PCG64(sequence(seed, stream, *index)))
