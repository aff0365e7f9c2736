"""Files of a stranger that are no regular files, or too large; text; files that appear whole."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fl_audit.config.file import load_config
from fl_audit.errors import InputError
from fl_audit.formats.npy_file import read_array
from fl_audit.formats.round_chain import digest_of
from fl_audit.formats.score_file import read_score_file
from fl_audit.formats.text_files import (
    atomic_writer,
    new_folder,
    open_foreign,
    read_csv,
    read_foreign,
    read_json,
    read_toml,
    text_lines,
    unfinished_files,
    write_text,
)

READERS = {
    "canaries.csv": lambda path: read_csv(path, ("canary_id",)),
    "scores_max.csv": read_score_file,
    "scores_max.parquet": read_score_file,
    "pool.json": lambda path: read_json(path, dict, "a pool"),
    "config.toml": read_toml,
    "final.npy": lambda path: read_array(path, "a model"),
}


@pytest.fixture(params=READERS)
def place(request, tmp_path):
    return tmp_path / request.param


def refused(path, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        READERS[path.name](path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_pipe_that_nobody_writes_to_is_refused_at_once(place):
    os.mkfifo(place)
    refused(place, "is a pipe, must be a regular file")


@pytest.mark.parametrize("device", ["zero", "full", "null"])
def test_a_link_to_a_device_is_refused_and_not_read(place, device):
    place.symlink_to(f"/dev/{device}")
    refused(place, "is a device, must be a regular file")


def test_a_folder_and_a_loop_of_links_are_refused(place):
    place.mkdir()
    refused(place, "Is a directory")
    place.rmdir()
    place.symlink_to(place)
    refused(place, "Too many levels of symbolic links")


def test_a_file_that_takes_no_room_and_claims_terabytes_is_refused(place):
    with place.open("wb") as file:
        file.truncate(1 << 42)
    claim = "claims a size of 4,398,046,511,104 bytes, but takes 0 on the disk"
    refused(place, claim)
    with pytest.raises(InputError, match=claim):
        digest_of(place)  # which no memory limits


def test_a_pipe_that_the_shell_names_is_read():
    reading, writing = os.pipe()
    threading.Thread(target=_write_slowly, args=(writing,)).start()
    with contextlib.closing(os.fdopen(reading)), open_foreign(_named(reading)) as file:
        assert file.read() == b"canary_id\n1\n"


def _write_slowly(descriptor: int) -> None:
    for part in (b"canary_id\n", b"1\n"):
        threading.Event().wait(0.05)
        os.write(descriptor, part)
    os.close(descriptor)


def _named(descriptor: int) -> Path:
    return Path(f"/dev/fd/{descriptor}")


def test_lines_keep_their_ends_and_lose_the_mark_at_the_start(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\n\nc")
    assert list(text_lines(path)) == ["a\r\n", "b\n", "\n", "c"]


def test_a_file_may_have_a_size_and_no_byte_more(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"12345")
    assert read_foreign(path, 5) == b"12345"
    with pytest.raises(OSError, match="has more than 4 bytes"):
        read_foreign(path, 4)


SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\n"


@pytest.mark.parametrize("name", ["canaries.csv", "scores_max.csv"])
def test_an_error_quotes_a_file_and_not_what_a_link_points_to(tmp_path, name):
    secret, path = tmp_path / "id", tmp_path / name
    secret.write_text(SECRET)
    path.symlink_to(secret)
    refused(path, f"is a link to {re.escape(str(secret))}, which is not a ")
    with pytest.raises(InputError) as caught:
        READERS[name](path)
    assert "OPENSSH" not in str(caught.value)
    assert caught.value.__suppress_context__
    path.unlink()
    path.write_text(SECRET)
    refused(path, "OPENSSH")


# Files that appear whole, or not at all.


def test_replaces_what_was_there_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a much longer old text")
    write_text(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_is_invisible_until_complete(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with atomic_writer(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    device = tmp_path / "pipe"
    os.mkfifo(device)
    reader = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    write_text(device, "x")
    assert os.read(reader, 10) == b"x"
    os.close(reader)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    with pytest.raises(OSError, match="No space left"):
        write_text(Path("/dev/full"), "x")
    assert Path("/dev/full").is_char_device()


def test_the_longest_names_can_be_written(tmp_path):
    path = tmp_path / ("ä" * 127)
    write_text(path, "x")
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_killed_writes_are_known_by_their_names(tmp_path):
    killed = [".checkpoint.npz.0a1b2c3d.part", ".checkpoint.npz.abcd_123.part"]
    for name in (*killed, ".lock", ".checkpoint.npz", "checkpoint.npz", ".vimrc.original"):
        (tmp_path / name).touch()
    assert sorted(path.name for path in unfinished_files(tmp_path)) == killed


_KILLED = """
import os, sys
from pathlib import Path
from fl_audit.formats.text_files import atomic_writer, new_folder
write = {"a.bin": atomic_writer, "audit": new_folder}[sys.argv[1]]
with write(Path(sys.argv[1])):
    print("begun", flush=True)
    sys.stdin.read(1)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("name", "write"), [("a.bin", atomic_writer), ("audit", new_folder)])
def test_what_a_kill_leaves_is_deleted_by_the_next_write_and_what_is_written_is_not(
    tmp_path, name, write
):
    program = [sys.executable, "-c", _KILLED, name]
    path, pipe = tmp_path / name, subprocess.PIPE
    (tmp_path / f".{name}.0a1b2c3d.part.kept").touch()
    with subprocess.Popen(program, cwd=tmp_path, stdin=pipe, stdout=pipe) as other:
        assert other.stdout.read(5) == b"begun"
        (under_way,) = unfinished_files(tmp_path)
        if name == "a.bin":
            with write(path):
                pass
        assert unfinished_files(tmp_path) == [under_way]
        other.communicate(b"!")
    assert unfinished_files(tmp_path) == [under_way]
    with write(path):
        pass
    assert {p.name for p in tmp_path.iterdir()} == {name, f".{name}.0a1b2c3d.part.kept"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("existed", [True, False])
def test_an_error_leaves_no_trace(tmp_path, error, existed):
    path = tmp_path / "a.bin"
    if existed:
        path.write_bytes(b"old")
    with pytest.raises(error), atomic_writer(path) as file:
        file.write(b"half")
        raise error
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([b"old"] if existed else [])


def test_a_place_that_cannot_be_replaced_leaves_no_trace(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match="folder"):
        write_text(folder, "x")
    assert list(tmp_path.iterdir()) == [folder]
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["0,5", "0.5"])
def test_decimal_commas_are_numbers_and_no_names(tmp_path, name):
    (tmp_path / "a.csv").write_text(f"canary_id;score\n{name};1,5\n")
    assert read_csv(tmp_path / "a.csv", ()) == [{"canary_id": name, "score": "1.5"}]


# TOML and JSON from outside: nested without end, numbers of thousands of digits, null bytes.


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = " + "[" * 5_000 + "]" * 5_000, "is not TOML: is nested too deeply"),
        ("a = " + "[" * 100 + "]" * 100, "key `a`: is nested too deeply"),
        ("a = " + "9" * 5_000, "is not TOML: "),
        (
            "a = 0x1" + "0" * 3_600,
            "key `a`: must be a whole number within 64 bits, got one of 14,401",
        ),
        ("[b]\na = 18446744073709551616", "key `b.a`: must be a whole number within 64 bits, got"),
        ('a = ["x\\u0000"]', "key `a`: must be text without a null byte"),
        ("a = ", "is not TOML: "),
    ],
)
def test_toml_that_no_key_can_use_is_one_line(tmp_path, text, reason):
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_toml(path)
    assert str(refused.value).startswith(f"{path}: {reason}")


def test_a_byte_order_mark_is_no_part_of_toml_or_json(tmp_path):
    for name, text in {"a.toml": "a = 1", "a.json": '{"a": 1}'}.items():
        (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert read_toml(tmp_path / "a.toml") == {"a": 1}
    assert read_json(tmp_path / "a.json", dict[str, Any], "a report") == {"a": 1}


@pytest.mark.parametrize("value", ["[" * 5_000 + "]" * 5_000, "9" * 5_000, '"a\\u0000"'])
def test_values_on_the_command_line_are_checked_like_those_of_the_file(tmp_path, value):
    path = tmp_path / "a.toml"
    path.write_text("")
    with pytest.raises(InputError, match="task"):
        load_config(path, [f"task.path={value}"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a":' * 100_000, "is not a report: is nested too deeply"),
        (b"[1]", "is not a report: must be a table"),
        (b'{"a": "\xff"}', "is not a report: "),
        (b"", "is not a report: "),
    ],
)
def test_json_of_another_kind_is_one_line(tmp_path, text, reason):
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(InputError) as refused:
        read_json(path, dict[str, Any], "a report")
    assert str(refused.value).startswith(f"{path}: {reason}")


def test_no_file_takes_the_place_of_a_pipe_that_a_shell_names(tmp_path, monkeypatch):
    monkeypatch.setattr("fl_audit.formats.text_files._SHELL_PIPES", (tmp_path,))
    with pytest.raises(OSError, match="is redirected to a file; name that file itself"):
        write_text(tmp_path / "stdout", "a page")
    assert not list(tmp_path.iterdir())
