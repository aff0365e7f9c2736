"""TOML and JSON from outside: nested without end, numbers of thousands of digits, null bytes."""

from typing import Any

import pytest

from fl_audit.config.file import load_config
from fl_audit.errors import InputError
from fl_audit.formats.json_file import read_json
from fl_audit.formats.toml_file import read_toml


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = " + "[" * 5_000 + "]" * 5_000, "is not TOML: is nested too deeply"),
        ("a = " + "[" * 100 + "]" * 100, "key `a`: is nested too deeply"),
        ("a = " + "9" * 5_000, "is not TOML: "),
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
        (b"[1]", "is not a report: Expected `object`"),
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
