"""The small run of the runtimes' tests."""

from tests.engines.tff.conftest import dense_run

__all__ = ["dense_run"]
