"""Hours on a machine that `benchmarks/gpu.py` measured."""

import json
import re

import pytest

from fl_audit.cli import main
from fl_audit.errors import InputError
from fl_audit.planning.machine import Machine, read_machine

# As the script prints them, numbers made up.
TABLE = """\
JAX 0.10.2, NumPy 2.4.6, Python 3.13.1
1 x NVIDIA A100 (gpu), of which one is used
peak of float32 products              19,000 GFLOP/s
rounds of LSTM clients, d = 40,507, 4 batches of 16; a sum of two within 1e-4
                                     clients/s     GFLOP/s   of peak  difference  compile
128 clients, 1 at once                   61.2       1,450        8%     2.1e-07    9.1 s
128 clients, 16 at once                   812      19,000      100%     2.1e-07    9.1 s
128 clients, 128 at once          out of memory
bfloat16, 128 at once                1.234e+04      19,000      100%     2.1e-03    9.1 s
d = 95,692, 64 at once                   9000       1,450        8%     2.1e-07    9.1 s
audited round over unaudited     1.020 (1.001 to 1.043); scoring of 2,000 canaries on the host 80 ms
"""

CONFIG = """\
task = {kind = "numbers", num_clients = 300, dim = 40000}
participation = {kind = "shuffle", rounds = 15, clients_per_round = 20}
canaries = {count = 20, family = "hadamard"}
mechanism = {kind = "gaussian_fixed", noise_multiplier = 0.5, clip_norm = 0.1}
audit = {claim = "none"}
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "machine.txt"
    path.write_text(TABLE)
    return path


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return str(path)


def test_the_fastest_block_in_float32_counts(table):
    assert read_machine(table) == Machine("NVIDIA A100 (gpu)", 40_507, 4, 16, 812.0, 0.08)


def test_hours_are_those_of_clients_and_of_scoring(config, table, capsys):
    asked = ["plan", config, "--trials", "3", "--machine", str(table)]
    assert main([*asked, "--json", "--runs", "10", "--machines", "4"]) == 0
    found = json.loads(capsys.readouterr().out)["machine"]
    one = 15 * (20 / 812 + 0.08) / 3600
    assert found["hours_of_one"] == pytest.approx(one, rel=1e-12)
    assert found["hours"] == pytest.approx(3 * one, rel=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rounds of LSTM clients", "rounds", "must be what `python benchmarks/gpu.py` printed"),
        ("128 clients, 1", "not begun", "has no row with clients a second above 0"),
        ("scoring of", "nothing", "has no time of scoring in 'audited round'"),
    ],
)
def test_a_table_without_what_hours_need_is_refused(table, old, new, message):
    table.write_text(TABLE.replace(old, new))
    with pytest.raises(InputError, match=re.escape(f"--machine {table}: {message}")):
        read_machine(table)


def test_another_model_and_another_family_are_one_line(config, table, capsys):
    asked = ["plan", config, "--trials", "3", "--machine", str(table)]
    assert main([*asked, "--set", "canaries.family=gaussian"]) == 2
    assert "no time for canaries.family 'gaussian'" in capsys.readouterr().err
    table.write_text(TABLE.replace("d = 40,507", "d = 95,692"))
    assert main(asked) == 2
    assert "must differ by at most 10%" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"0" * 200_000])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(f"--machine {path}: ")):
        read_machine(path)


def test_a_folder_and_no_file_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="cannot be read as text"):
            read_machine(path)
