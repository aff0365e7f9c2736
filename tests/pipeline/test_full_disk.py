"""A full disk or kill -9 at any time: one line, whole files, and a run that goes on to its end.

The disks are small file systems in memory, mounted in a namespace of the test's own.
"""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.pipeline.runs import at_work
from tests.engines.test_toy_engine import CONFIG

_MOUNTED = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
_SIZES = (4, 8, 16, 32, 48, 64, 96, 128, 256, 512)
"""Sizes of disks in KiB; the run needs about 400."""


def _can_mount() -> bool:
    try:
        made = subprocess.run(
            [*_MOUNTED, "mount -t tmpfs none /mnt"], capture_output=True, check=False
        )
    except OSError:
        return False
    return made.returncode == 0


@pytest.mark.parametrize(
    ("left", "then"),
    [
        ((), "start the run again"),
        (("config.toml",), "--resume continues it"),  # an attack, or a resumed run
        (("config.toml", "checkpoint.npz"), "--resume continues from the last checkpoint"),
    ],
)
def test_the_line_on_a_full_disk_names_what_is_not_refused_next(tmp_path, left, then):
    for name in left:
        (tmp_path / name).write_text("")
    with (
        pytest.raises(InputError, match=f"No space left; once that is fixed, {then}$"),
        at_work(RunFolder(tmp_path)),
    ):
        raise OSError(28, "No space left", "model.npz")


needs_mount = pytest.mark.skipif(not _can_mount(), reason="needs user namespaces that may mount")


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("config")
    engine = "from tests.engines.toy_engine import register\n\nregister()\n"
    (folder / "toy_plugin.py").write_text(engine)
    path = folder / "config.toml"
    path.write_text(f'plugins = ["toy_plugin"]\n{CONFIG}')
    return path


def _command(*words: object) -> list[str]:
    return [sys.executable, "-m", "fl_audit", *map(str, words)]


def _run(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    resume = ["--resume"] if (out / "config.toml").exists() else []
    return subprocess.run(
        _command("run", config, "--out", out, *resume), capture_output=True, text=True, check=False
    )


def _scores(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("scores_*.csv")}


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert _run(config, out).returncode == 0
    return _scores(out)


def _on_small_disk(size: int, words: list[str], saved: Path) -> tuple[int, list[str]]:
    """Runs a command whose folder /mnt is a disk of some KiB, and keeps what it left there."""
    script = (
        f'mount -t tmpfs -o size={size}k none /mnt; saved=$1; shift; "$@"; status=$?; '
        'cp -a /mnt "$saved"; exit $status'
    )
    made = subprocess.run(
        [*_MOUNTED, script, "sh", saved, *words], capture_output=True, text=True, check=False
    )
    lines = made.stderr.splitlines()
    return made.returncode, [line for line in lines if " of 12 rounds" not in line]


def _unfinished(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(".part")]


@needs_mount
@pytest.mark.slow
@pytest.mark.parametrize("size", _SIZES)
def test_a_full_disk_is_one_line_and_the_run_goes_on(size, config, whole, tmp_path):
    saved = tmp_path / "disk"
    status, lines = _on_small_disk(size, _command("run", config, "--out", "/mnt/run"), saved)
    assert not _unfinished(saved)
    if status:
        saved_rounds = (saved / "run" / "checkpoint.npz").exists()
        then = (
            "--resume continues from the last checkpoint" if saved_rounds else "start the run again"
        )
        assert status == 2 and len(lines) == 1
        assert lines[0].startswith("fl-audit: error: /mnt/run")
        assert lines[0].endswith(f"No space left on device; once that is fixed, {then}")
        assert saved_rounds or not list(saved.iterdir())
    assert _run(config, saved / "run").returncode == 0
    assert _scores(saved / "run") == whole


@needs_mount
def test_a_full_disk_leaves_no_half_of_a_commitment(config, tmp_path):
    saved = tmp_path / "disk"
    words = _command("commit", config, "--set", f"seed={2**60}", "--out", "/mnt/commitment.json")
    status, lines = _on_small_disk(4, words, saved)
    assert status == 2 and len(lines) == 1 and "No space left on device" in lines[0]
    assert not list(saved.iterdir())


_KILLS = 40


@pytest.mark.slow
def test_kills_at_any_time_lose_nothing(config, whole, tmp_path):
    """The times are drawn from 0 to what a whole run takes; a run that is killed is resumed."""
    draw = random.Random(1)
    begun = time.monotonic()
    assert _run(config, tmp_path / "timed").returncode == 0
    takes = time.monotonic() - begun
    out, kills = tmp_path / "run", 0
    while kills < _KILLS:
        resume = ["--resume"] if (out / "config.toml").exists() else []
        words = _command("run", config, "--out", out, *resume)
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            process.communicate(timeout=takes * draw.random())
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
        assert process.returncode in (0, -signal.SIGKILL)
        if process.returncode == 0:
            assert _scores(out) == whole and not _unfinished(out)
            shutil.rmtree(out)
    assert _run(config, out).returncode == 0
    assert _scores(out) == whole and not _unfinished(out)
