"""One process at a time in a folder; a dead process keeps nobody out."""

import os
import signal
import subprocess
import sys

import pytest

from fl_audit.errors import InputError
from fl_audit.formats.folder_lock import LOCK_NAME, locked

_HOLDER = """
import sys, time
from pathlib import Path
from fl_audit.formats.folder_lock import locked
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


def test_the_same_process_holds_a_lock_once(tmp_path):
    with locked(tmp_path), pytest.raises(InputError, match="is at work"), locked(tmp_path):
        pass


def test_an_error_gives_up_the_lock(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path):
        pass
