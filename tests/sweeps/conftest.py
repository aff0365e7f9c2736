from collections.abc import Callable
from pathlib import Path

import pytest

from tests.comparison.conftest import built_report, make_run
from tests.small_configs import TINY_RUN

__all__ = ["built_report", "grid", "make_run"]


@pytest.fixture
def grid(tmp_path) -> Callable[[str], Path]:
    """A function that writes a sweep's file over a small config and gives its path."""
    (tmp_path / "base.toml").write_text(TINY_RUN)

    def write(text: str) -> Path:
        path = tmp_path / "grid.toml"
        path.write_text(f'base = "base.toml"\n{text}')
        return path

    return write
