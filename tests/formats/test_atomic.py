"""Files that appear whole, or not at all."""

import pytest

from fl_audit.formats.atomic import atomic_writer, write_text


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


def test_others_may_read_it(tmp_path):
    write_text(tmp_path / "a.txt", "x")
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644


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
