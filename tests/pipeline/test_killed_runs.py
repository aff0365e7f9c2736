"""A run that is killed at any write goes on with --resume and gives the same scores."""

from pathlib import Path

import pytest

from fl_audit.cli import main
from fl_audit.verification import verify_folder
from tests.verification.toy_runs import CONFIG

pytestmark = pytest.mark.usefixtures("toy_runtime")

_CONFIG = CONFIG.replace('"known_rounds"', '"checkpoints", "window"').replace(
    'verdict_statistic = "own_rounds"',
    "release_every = 2\nwindow_first_round = 2\nwindow_last_round = 6",
)


class _Killed(BaseException):
    """The end of a process at one of its writes."""


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("config") / "run.toml"
    path.write_text(_CONFIG)
    return path


@pytest.fixture(scope="module")
def whole(toy_runtime, config, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert main(["run", str(config), "--out", str(out)]) == 0
    assert not [path for path in out.iterdir() if path.name.startswith(".")]
    return out


def _scores(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("scores_*.csv")}


def _killed_at(write: int, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> bool:
    """Runs a command until a file would be renamed into its place for the n-th time."""
    count = 0
    replace = Path.replace

    def killing(self, target):
        nonlocal count
        count += 1
        if count == write:
            (self.parent / f".{target.name}.0a1b2c3d.part").touch()  # a kill would leave it
            raise _Killed
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killing)
        try:
            main(words)
        except _Killed:
            return True
    return False


def _check_resumes(out: Path, config: Path, whole: Path) -> None:
    is_begun = (out / "config.toml").exists()
    resume = ["--resume"] if is_begun else []
    if not (out / "report.json").exists():
        assert main(["run", str(config), "--out", str(out), *resume]) == 0
    assert _scores(out) == _scores(whole)
    assert {path.name for path in out.iterdir()} == {path.name for path in whole.iterdir()}
    assert verify_folder(out).held


def test_a_kill_at_a_write_leaves_a_run_to_resume(config, whole, tmp_path, monkeypatch):
    out = tmp_path / "run"
    assert _killed_at(6, monkeypatch, ["run", str(config), "--out", str(out)])
    _check_resumes(out, config, whole)


@pytest.mark.slow
def test_every_kill_at_a_write_leaves_a_run_to_resume(config, whole, tmp_path, monkeypatch):
    write = 1
    while _killed_at(write, monkeypatch, ["run", str(config), "--out", str(tmp_path / str(write))]):
        _check_resumes(tmp_path / str(write), config, whole)
        write += 1
    assert write > 12
