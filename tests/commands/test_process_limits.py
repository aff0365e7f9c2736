"""A command whose standard output is full, closed or ASCII, or that Ctrl-C stops."""

import os
import signal
import subprocess
import sys

import pytest

from fl_audit.cli import main
from fl_audit.commands import counts
from fl_audit.commands.process import limit_words

_ONE_RUN = "one-run --examples 100 --guesses 100 --correct 75 --delta 0"


def _shell(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        f"{sys.executable} -m fl_audit.cli {words}",
        shell=True,
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (">/dev/full", "fl-audit: error: standard output"),
        (">&-", "fl-audit: error: standard output is closed; redirect it, such as to"),
    ],
)
def test_output_that_cannot_be_written_is_one_line(output, line):
    made = _shell(f"{_ONE_RUN} {output}")
    assert made.returncode == 2
    assert made.stderr.startswith(line)
    assert made.stderr.count("\n") == 1


def test_letters_that_ascii_lacks_are_escaped():
    made = _shell("counts --help", PYTHONIOENCODING="ascii")
    assert made.returncode == 0
    assert "Zanella-B\\xe9guelin" in made.stdout


@pytest.mark.parametrize("raised", [KeyboardInterrupt, ImportError])
def test_ctrl_c_during_an_import_is_one_line(monkeypatch, capsys, request, raised):
    """A library that is written in C may turn the interrupt into an error of its own."""

    # A suite that runs in the background is started with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupted(arguments):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            signal.sigtimedwait([], 1)
        except KeyboardInterrupt as error:
            raise raised("numpy.core.multiarray failed to import") from error

    monkeypatch.setattr(counts, "_counts", interrupted)
    words = "counts --fn 1 --tp 1 --fp 1 --tn 1 --delta 0"
    assert main(words.split()) == 130
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "fl-audit: stopped by Ctrl-C\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", ["9" * 20, "-" + "9" * 25, "9" * 5_000])
def test_numbers_beyond_64_bits_are_refused_and_not_echoed_in_full(number, capsys):
    assert main(_ONE_RUN.replace("75", number).split()) == 2
    line = capsys.readouterr().err
    assert "argument --correct: must be a whole number within 64 bits, got" in line
    assert len(line) < 250


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--dim 10 --canaries 1000000000000 --trials 1", "canaries x trials must be at most"),
        ("--dim 1000000000000 --canaries 1 --trials 1", "dim must be at most 1,000,000,000, got"),
        ("--dim 10 --canaries 1 --trials 100000000000", "canaries x trials must be at most"),
    ],
)
def test_sizes_that_would_not_end_are_refused_with_the_number(words, line, capsys):
    assert main(f"mechanism --epsilon 1 --delta 1e-5 --seed 1 {words}".split()) == 2
    assert line in capsys.readouterr().err


def test_values_beyond_floating_point_are_one_line(capsys, monkeypatch):
    def overflow(*_: object, **__: object) -> None:
        raise OverflowError(34, "Numerical result out of range")

    monkeypatch.setattr("fl_audit.attacks.one_release.audit_gaussian_mechanism", overflow)
    words = "--epsilon 1 --delta 1e-5 --dim 10 --canaries 1 --trials 1 --seed 1"
    assert main(["mechanism", *words.split()]) == 2
    assert "leave the range of floating-point numbers" in capsys.readouterr().err


def test_an_error_of_memory_without_words_ends_in_no_colon():
    assert limit_words(MemoryError()) == "needs more memory than there is"
    assert limit_words(MemoryError("8 GB")) == "needs more memory than there is: 8 GB"


def test_a_commitment_without_a_file_name_is_refused_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "digits", "--out", "config.toml"]) == 0
    capsys.readouterr()
    assert main(["commit", "config.toml", "--out", ""]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert "argument --out: .: cannot be written: Is a directory" in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]
