"""Releases for tests, whose parties differ in their sampling alone."""

from typing import Any

from fl_audit.accounting import Denominator, FixedRounds, Noise, Party, Release, Sampling


def release(
    noise: float,
    client: Sampling | int | None = 1,
    canary: Sampling | int | None = None,
    *,
    rounds: int = 100,
    distribution: str = "gaussian",
    count_noise: float = 0.0,
    sum_noise: float | None = None,
    client_squared: int | None = None,
    canary_squared: int | None = None,
    **facts: Any,
) -> Release:
    """Releases at a noise multiplier; a number is one of fixed rounds, None the client's."""
    of_client = _sampling(client)
    return Release(
        rounds=rounds,
        noise=Noise(distribution, noise, noise if sum_noise is None else sum_noise, count_noise),
        denominator=Denominator("expected_cohort", 20.0),
        client=Party(of_client, client_squared),
        canary=Party(of_client if canary is None else _sampling(canary), canary_squared),
        **facts,
    )


def _sampling(rounds: Sampling | int | None) -> Sampling:
    return FixedRounds(rounds or 0) if rounds is None or isinstance(rounds, int) else rounds
