"""Files that appear whole, or not at all."""

import os
from pathlib import Path

import pytest

from fl_audit.formats.atomic import atomic_writer, unfinished_files, write_text


def test_text_is_utf8_without_newline_translation(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "ε ≥ 1\r\n")
    assert path.read_bytes() == "ε ≥ 1\r\n".encode()


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


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_keeps_the_umask(tmp_path, umask, mode):
    earlier = os.umask(umask)
    try:
        write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(earlier)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == mode


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
    killed = [".checkpoint.npz.0a1b2c3d.part", ".checkpoint.npz.abcd_123"]
    for name in (*killed, ".lock", ".checkpoint.npz", "checkpoint.npz"):
        (tmp_path / name).touch()
    assert sorted(path.name for path in unfinished_files(tmp_path)) == killed


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


def test_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "none" / "a.txt", "x")
