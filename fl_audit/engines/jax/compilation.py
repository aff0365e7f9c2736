"""The time that JAX spends on compiling, from its own monitoring events."""

from jax import monitoring

_COUNTED = (
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)
"""Lowering, and compilation by XLA. Tracing is not counted: its events are nested."""

_reported = {event: [0, 0.0] for event in _COUNTED}


def _count(event: str, seconds: float, **of_event: object) -> None:
    if event in _reported:
        _reported[event][0] += 1
        _reported[event][1] += seconds


# JAX cannot remove a single listener, so the process has one.
monitoring.register_event_duration_secs_listener(_count)


class CompilationClock:
    """Number and time of compilations in this process since the clock was created."""

    def __init__(self) -> None:
        self._before = _so_far()

    @property
    def programs(self) -> int:
        """The number of programs that XLA compiled."""
        return _so_far()[0] - self._before[0]

    @property
    def seconds(self) -> float:
        """The seconds of lowering and compilation."""
        return _so_far()[1] - self._before[1]


def _so_far() -> tuple[int, float]:
    seconds = sum(float(spent) for _, spent in _reported.values())
    return int(_reported[_COUNTED[-1]][0]), seconds
