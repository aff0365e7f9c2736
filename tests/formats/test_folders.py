"""Run folders: their paths, and their lock."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fl_audit.errors import InputError
from fl_audit.formats.folders import LOCK_NAME, RunFolder, locked

STATISTICS = ("final", "final_minus_initial", "max", "sum")


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return RunFolder(tmp_path)


def test_every_path_is_a_different_one_inside_the_folder(folder):
    names = {name for kind in RunFolder.__mro__ for name in vars(kind) if name[0] != "_"}
    found = [getattr(folder, name) for name in names]
    paths = [path for path in found if isinstance(path, Path) and path != folder.path]
    paths += [folder.scores(statistic) for statistic in STATISTICS]
    assert len(set(paths)) == len(paths) >= 35
    assert {path.parent for path in paths} == {folder.path}


def test_names_that_the_contract_fixes(folder):
    names = {p.name for p in map(folder.scores, STATISTICS)}
    names |= {folder.config.name, folder.metrics.name}
    names |= {folder.report_json.name, folder.report_html.name}
    assert names == {
        "scores_final.csv",
        "scores_final_minus_initial.csv",
        "scores_max.csv",
        "scores_sum.csv",
        "config.toml",
        "metrics.csv",
        "report.json",
        "report.html",
    }


# One process at a time in a folder; a dead process keeps nobody out.


_HOLDER = """
import sys, time
from pathlib import Path
from fl_audit.formats.folders import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(InputError, match=rf"another process \(number {holder.pid}\) is at work"),
            locked(tmp_path),
        ):
            pass
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
    assert (tmp_path / LOCK_NAME).exists()  # as the killed process left it
    with locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_an_error_gives_up_the_lock(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path):
        pass
