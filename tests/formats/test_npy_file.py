"""NPY and NPZ files that are cut, lie about their size, or would need pickle."""

import zipfile

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.formats import npy_file
from fl_audit.formats.npy_file import read_array, read_arrays


def _header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


_HOSTILE = [
    _header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000000,)}\n"),
    _header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3000000000, 4000000000)}\n"),
    _header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}\n"),
    _header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n") + b"x" * 8,
    _header("(" * 5000),
    _header("{'descr': '<q9'}"),
    b"\x93NUMPY\x09\x00",
    b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
    b"PK\x03\x04",
    b"",
]


@pytest.mark.parametrize("content", _HOSTILE, ids=range(len(_HOSTILE)))
def test_what_is_no_array_is_one_line(tmp_path, content):
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"is not a model: ."):
        read_array(path, "a model")


def test_an_array_that_was_cut_is_refused_with_the_numbers(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(100))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="its header asks for 800 bytes, the file has 792"):
        read_array(path, "a model")


def test_a_zip_bomb_is_refused_before_it_unpacks(tmp_path, monkeypatch):
    assert npy_file._MOST_UNPACKED == 2**31
    monkeypatch.setattr(npy_file, "_MOST_UNPACKED", 2**22)
    path = tmp_path / "a.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("inputs.npy", "w", force_zip64=True) as member,
    ):
        member.write(_header("{'descr': '|u1', 'fortran_order': False, 'shape': (9,)}\n"))
        for _ in range(33):
            member.write(bytes(2**17))
    assert path.stat().st_size < 2**14
    with pytest.raises(InputError, match=r"unpacks to 4,325,.* bytes, must be at most 4,194,304"):
        read_arrays(path, "an NPZ file")


def test_a_member_whose_header_lies_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.npy", _HOSTILE[0])
    with pytest.raises(InputError, match=r"the header of a.npy asks for 4,000,000,000,000,000,000"):
        read_arrays(path, "a checkpoint")
