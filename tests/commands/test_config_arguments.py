"""What commands that run a config check of it beside what the file's tables say."""

import subprocess
import sys

import pytest

from fl_audit.cli import main
from fl_audit.config.file import load_config
from fl_audit.engines.runtimes import RUNTIMES, RuntimeKind, check_runtime_name
from tests.small_configs import SMALLEST


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(SMALLEST)
    return path


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("zzz", "key `runtime`: unknown 'zzz'; known: auto, jax, local, native, ray"),
        (
            "gpu",
            "key `runtime`: unknown 'gpu'; did you mean 'local' (TensorFlow in this process, on a "
            "GPU where there is one)?",
        ),
        ("locl", "key `runtime`: unknown 'locl'; did you mean 'local'?"),
    ],
)
def test_a_runtime_that_there_is_not_is_one_line(path, capsys, command, name, message):
    out = ["--out", str(path.parent / "out")] if command == "run" else []
    assert main([command, str(path), *out, "--set", f"runtime={name}"]) == 2
    assert capsys.readouterr().err.strip().endswith(f"{path}: {message}")
    assert not (path.parent / "out").exists()


def test_another_runtime_is_one_registration(path):
    RUNTIMES.register(RuntimeKind("toy", lambda *_: None, takes_blocks=False))
    try:
        check_runtime_name(load_config(path, ["runtime=toy"]).runtime, str(path))
    finally:
        RUNTIMES.remove("toy")


@pytest.mark.slow
def test_neither_configs_nor_the_names_of_runtimes_need_tensorflow():
    program = (
        "import sys, fl_audit.config.file, fl_audit.engines.runtimes; "
        "print([name for name in sys.modules if name.startswith('tensorflow')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.stdout == "[]\n", done.stderr
