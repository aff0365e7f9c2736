"""Count files: what is read, and one clear line for each way to spoil one."""

import pytest

from fl_audit.errors import InputError
from fl_audit.formats.score_file import read_counts_file


def written(tmp_path, text: str | bytes):
    path = tmp_path / "counts.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "fp,n0,fn,n1\n1,10,2,20\n0,5,5,5\n",
        "n1,fn,n0,fp\r\n20,2,10,1\r\n5,5,5,0\r\n",
        "fp,n0,fn,n1\n 1, 10, 2, 20\n\n0,5,5,5",
    ],
    ids=["plain", "another order and CRLF", "spaces and a blank line"],
)
def test_reads_a_row_per_base(tmp_path, text):
    counts = read_counts_file(written(tmp_path, text))
    assert counts.fp.tolist() == [1, 0]
    assert counts.n0.tolist() == [10, 5]
    assert counts.fn.tolist() == [2, 5]
    assert counts.n1.tolist() == [20, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fp,n0,fn\n1,2,1\n", "has no column 'n1'"),
        ("fp,n0,fn,n1,fpr\n1,2,1,2,0\n", "unknown column 'fpr': did you mean 'fp'?"),
        ("fp,n0,fn,n1\n", "must hold at least one row below the header, got none"),
        ("", "has no column 'fp'"),
        ("fp,n0,fn,n1\n1,2,1\n", "row 1: must have 4 fields"),
        (
            "fp,n0,fn,n1\n1,2,1,2\n1,2,x,2\n",
            "row 2, column fn: must be a whole number from 0 to 999999999, got 'x'",
        ),
        ("fp,n0,fn,n1\n-1,2,1,2\n", "row 1, column fp: must be a whole number from 0 to"),
        ("fp,n0,fn,n1\n1.0,2,1,2\n", "row 1, column fp: must be a whole number from 0 to"),
        (
            "fp,n0,fn,n1\n1,,1,2\n",
            "row 1, column n0: must be a whole number from 0 to 999999999",
        ),
        ("fp,n0,fn,n1\n3,2,1,2\n", "row 1, column fp: must be at most n0, which is 2, got 3"),
        ("fp,n0,fn,n1\n1,2,3,2\n", "row 1, column fn: must be at most n1, which is 2, got 3"),
        ("fp,n0,fn,n1\n1,99999999999999999999,3,2\n", "row 1, column n0: must be a whole number"),
        (b"\xff\xfe", "is not CSV"),
    ],
)
def test_each_error_is_one_line_that_names_the_place(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_counts_file(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_counts_file(tmp_path / "none.csv")
