"""What is no regular file, is too large, or is a link to somebody's secret."""

import contextlib
import os
import re
import threading
from pathlib import Path

import pytest

from fl_audit.errors import InputError
from fl_audit.formats.csv_file import read_csv
from fl_audit.formats.foreign_file import open_foreign, read_foreign, text_lines
from fl_audit.formats.json_file import read_json
from fl_audit.formats.npy_file import read_array
from fl_audit.formats.score_file import read_score_file
from fl_audit.formats.toml_file import read_toml

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
    refused(place, "has more than|has a line of|is not a model")


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


def test_a_link_to_a_good_file_is_followed(tmp_path):
    good, path = tmp_path / "good.csv", tmp_path / "scores_max.csv"
    good.write_text("canary_id,included,score\na,1,0.5\n")
    path.symlink_to(good)
    assert read_score_file(path).canary_id == ("a",)
