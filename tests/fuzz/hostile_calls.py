"""Hostile calls of the command line, each a function of a seed and its number alone.

A call is arguments and a folder of files: valid ones, of which some bytes, values or files are
changed to what an attacker or an accident might leave there.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_VALID = Path(__file__).parents[1] / "recorded" / "inputs"

_WHOLE = (
    *("-1", "0", "1", "2", "3", "7", "100", "1000", "4096", "-9", "1e5", "nan", "inf", "", "x"),
    *(str(2**31), str(2**53), str(2**63 - 1), str(2**63), str(10**30), "9" * 5_000, "1_0", "٣"),
)
_NUMBERS = (
    *("-1", "0", "1e-300", "5e-324", "1e-12", "1e-5", "0.05", "0.5", "0.9", "0.95", "1", "1.5"),
    *("0.9999999999999999", "3", "50", "700", "1e9", "1e154", "1e308", "1e400", "nan", "inf"),
    *("-inf", "-0.0", "", "x", "0x1p3", "9" * 5_000),
)
_WORDS = ("", "x", "a\tb", "é", "-", "--", "../..", "\udcff", "a" * 300, "closed_form", "grid")
_CELLS = (
    *_WHOLE[:18], *_NUMBERS[2:26], "a,b", '"', "'", "\0", "\r", "\n", "9" * 5_000, "1e-320", "e",
    "True", "−1", "1 2 3", "=1+1", "\ufeff", "\ud7ff",
)  # fmt: skip
_BYTES = (
    b"\0", b"\xff\xfe", b"\n", b",", b"[" * 3_000, b"{" * 3_000, b"9" * 5_000, b'"', b"\x93NUMPY",
    b"PK\x03\x04", b"1e400", b"NaN", b"-1", b"null", b"18446744073709551616", b"\r\r",
)  # fmt: skip
_ENDINGS = ("", "", "", "\udcff", "$_$\\x", "\x1b[31m", "\n", "<b>&", "\u202e")
"""The ends of a folder's name."""

_HEADERS = (
    "(1000000000000000000,)",
    "(2, 3000000000, 4000000000)",
    "(-1,)",
    "()",
    "(0,)",
    "(6, -60)",
)


@dataclass(frozen=True)
class Call:
    """A call of the command line in a folder with its files.

    Attributes:
      arguments: The arguments without the program's name.
      folder: The folder that the call is made in.
      cpu_seconds: The processor time that the call may take.
    """

    arguments: tuple[str, ...]
    folder: Path
    cpu_seconds: int = 20


Make = Callable[[np.random.Generator, Path], tuple[str, ...]]


def make_call(seed: int, number: int, folder: Path) -> Call:
    """Makes a call and writes its files.

    Args:
      seed: The seed of all calls.
      number: The number of the call.
      folder: An empty folder.
    """
    random = np.random.default_rng([seed, number])
    weights = np.array([weight for _, weight in _MAKERS], dtype=float)
    make, _ = _MAKERS[int(random.choice(len(_MAKERS), p=weights / weights.sum()))]
    arguments = list(make(random, folder))
    trains = make in (_config, _sweep, _attack)  # with other arguments it would
    if not trains and random.random() < 0.15:
        _change_arguments(random, arguments)
    return Call(tuple(arguments), folder)


def _of(random: np.random.Generator, values: tuple[str, ...]) -> str:
    return values[int(random.integers(len(values)))]


def _change_arguments(random: np.random.Generator, arguments: list[str]) -> None:
    """Drops, doubles, swaps or replaces one argument."""
    at = int(random.integers(len(arguments)))
    match int(random.integers(4)):
        case 0:
            del arguments[at]
        case 1:
            arguments.insert(at, arguments[at])
        case 2:
            arguments[at] = _of(random, (*_WHOLE, *_NUMBERS, *_WORDS))
        case _:
            other = int(random.integers(len(arguments)))
            arguments[at], arguments[other] = arguments[other], arguments[at]


def _options(
    random: np.random.Generator,
    needed: dict[str, tuple[str, ...]],
    free: dict[str, tuple[str, ...]],
) -> list[str]:
    """Options with values: usual ones for most, hostile ones for some."""
    chosen = {**needed, **{name: free[name] for name in free if random.random() < 0.3}}
    words: list[str] = []
    for name, values in chosen.items():
        if not values:
            words.append(name)
            continue
        hostile = (*_WHOLE, *_NUMBERS)
        words.append(f"{name}={_of(random, hostile if random.random() < 0.2 else values)}")
    return words


_DELTA = {"--delta": ("0", "1e-5", "1e-3", "0.05")}
_COMMON = {"--confidence": ("0.9", "0.95", "0.99"), "--json": ()}


def _counts(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    del folder
    few = ("0", "5", "30", "70")
    cells = {"--fn": few, "--tp": few, "--fp": few, "--tn": few}
    return ("counts", *_options(random, cells | _DELTA, _COMMON))


def _one_run(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    del folder
    needed = {"--examples": ("100",), "--guesses": ("60", "100"), "--correct": ("50", "75")}
    free = _COMMON | {"--epsilon": ("0", "1", "50")}
    return ("one-run", *_options(random, needed | _DELTA, free))


def _mechanism(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    del folder
    needed = {
        "--epsilon": ("0.5", "1", "10"), "--delta": ("1e-6", "0.5"), "--dim": ("2", "64", "1000"),
        "--canaries": ("1", "10"), "--trials": ("1", "3"), "--seed": ("0", "1"),
    }  # fmt: skip
    return ("mechanism", *_options(random, needed, {"--json": ()}))


def _mcmc(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    _hostile_file(random, _VALID / "bases.csv", folder / "counts.csv")
    free = _COMMON | {
        "--correlated": (),
        "--alpha-prior": ("strength", "uniform", "strongest", "0.5", "beta:2,5", "beta:1"),
        "--method": ("grid", "mhaar"), "--draws": ("8", "100"), "--burn-in": ("4", "20"),
        "--seed": ("0", "1", "-1"), "--epsilon-variance": ("10", "1e-3", "1e3", "0", "nan"),
        "--chains": ("4", "5", "3"), "--auxiliary": ("2", "16", "1"),
    }  # fmt: skip
    words = _options(random, _DELTA, free)
    if "--method=grid" not in words and not any(word.startswith("--draws") for word in words):
        words.append("--draws=40")
    return ("mcmc", str(folder / "counts.csv"), *words)


def _estimate_options(random: np.random.Generator, folder: Path) -> list[str]:
    methods = ("gaussian_fit", "one_run_valid,bayes", "threshold_valid", "x", "")
    free = _COMMON | {
        "--dim": ("2", "250", "10000"), "--canaries": ("gaussian", "rademacher", "hadamard", "x"),
        "--methods": methods, "--null": ("closed_form", "empirical"),
        "--claimed-epsilon": ("0", "1", "8", "1e9"),
        "--statistic": ("max", "sum", "final", "final", "x", "../final", ""),
    }  # fmt: skip
    return [*_options(random, _DELTA, free), *_page(random, folder)]


def _page(random: np.random.Generator, folder: Path) -> list[str]:
    """A place for a page, for some calls."""
    places = ("page.html", "page.html", "none/page.html", ".", "x" * 300, "sub/../page.html")
    return [f"--out={folder / _of(random, places)}"] if random.random() < 0.2 else []


def _estimate_file(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    names = ("three.csv", "three.csv", "circle_2.csv", "ties.csv", "shifted_10000.parquet")
    name = _of(random, names)
    _hostile_file(random, _VALID / name, folder / name)
    return ("estimate", str(folder / name), *_estimate_options(random, folder))


def _estimate_folder(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    place = folder / f"folder{_of(random, _ENDINGS)}"
    _hostile_folder(random, _valid_folder(random), place)
    return ("estimate", str(place), *_estimate_options(random, folder))


def _compare(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    places = []
    for index in range(int(random.integers(1, 4))):
        places.append(folder / f"{index}{_of(random, _ENDINGS)}")
        _hostile_folder(random, _valid_folder(random), places[-1])
    words = _options(random, {}, _DELTA | {"--json": ()})
    return ("compare", *map(str, places), *words, *_page(random, folder))


def _valid_folder(random: np.random.Generator) -> Path:
    """A folder of a run or of a log."""
    valid = sorted(_VALID.glob("*/pool.json")) + sorted(_VALID.glob("*/*/run.json"))
    return valid[int(random.integers(len(valid)))].parent


def _show(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    place = folder / "folder"
    _hostile_folder(random, _valid_folder(random), place)
    return ("show", str(place))


def _init(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    """A new config, in a place that may be taken."""
    (folder / "taken.toml").touch()
    tasks = ("digits", "text", "npz", "table", "python", "stackoverflow", "emnist", *_WORDS)
    places = ("new.toml", "new.toml", "taken.toml", "none/new.toml", ".", "x" * 300, "\0")
    words = [f"--out={folder / _of(random, places)}"] if random.random() < 0.8 else []
    return ("init", _of(random, tasks), *words)


def _completion(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    del folder
    return ("completion", _of(random, ("bash", "zsh", *_WORDS)))


def _config(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    """A config for a folder that is taken, so that even a valid one trains nothing."""
    valid = sorted((_VALID / "configs").glob("*.toml"))
    config = folder / "config.toml"
    _hostile_file(random, valid[int(random.integers(len(valid)))], config)
    out = folder / "taken"
    out.mkdir()
    (out / "something").touch()
    words = ["run", str(config), "--out", str(out)]
    keys = (
        "seed", "task.num_clients", "task.hidden", "mechanism.noise_multiplier", "canaries.count",
        "mechanism.clip_norm", "participation.rounds", "audit.delta", "audit", "task", "x.y.z",
        "audit.threat_models", "canaries.store_path", "participation.clients_per_round", "", ".",
    )  # fmt: skip
    for _ in range(int(random.integers(0, 3))):
        words += ["--set", f"{_of(random, keys)}={_of(random, _CELLS)}"]
    return (*words, *(["--resume"] if random.random() < 0.2 else []))


_ATTACK = b"""
seed = 1
[task]
kind = "digits"
num_clients = 3
hidden = [16]
[attack]
num_shadow = 40
num_points = 2
num_base_shadow = 16
num_challenges = 30
delta = 1e-5
clip_norm = 1.0
noise_multiplier = 0.5
"""

_GRID = b"""
base = "base.toml"
seeds = [1, 2]
[grid]
"canaries.count" = [20, 50]
[[variant]]
name = "plain"
set = {"mechanism.clip_norm" = 0.3}
[[variant]]
name = "none"
set = {"mechanism.noise_multiplier" = 0.0}
"""


def _attack(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    """An attack into a folder that is taken, so that even a valid one trains nothing."""
    config, out = folder / "attack.toml", folder / "taken"
    config.write_bytes(_mostly_changed(random, _ATTACK, ".toml"))
    out.mkdir()
    (out / "something").touch()
    words = ["attack", str(config), "--out", str(out)]
    keys = ("attack.num_shadow", "attack.num_points", "attack.models_per_block", "seed", "task.x")
    if random.random() < 0.5:
        words += ["--set", f"{_of(random, keys)}={_of(random, _CELLS)}"]
    return (*words, *(["--resume"] if random.random() < 0.2 else []))


def _sweep(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    """A sweep that is only planned, over folders of which some are there."""
    valid = sorted((_VALID / "configs").glob("*.toml"))
    _hostile_file(random, valid[int(random.integers(len(valid)))], folder / "base.toml")
    (folder / "grid.toml").write_bytes(_mostly_changed(random, _GRID, ".toml"))
    for name in ("plain-count_20-seed_1", "none-count_50-seed_2", "sweep.json"):
        if random.random() < 0.3:
            _hostile_folder(random, _valid_folder(random), folder / "sweep" / name)
    return ("sweep", str(folder / "grid.toml"), "--out", str(folder / "sweep"), "--dry-run")


_DATA = {
    "table": b"client_id,label,a,b\n"
    + b"".join(b"c%d,%d,%d.5,%d\n" % (row % 4, row % 2, row, row % 3) for row in range(40)),
    "text": b"client_id,text\n"
    + b"".join(b'c%d,"word%d, and more"\n' % (row % 3, row % 5) for row in range(30)),
}

_COMMITTED = """
seed = 1152921504606846976
[task]
kind = "{kind}"
path = "data.csv"
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 1.0
clip_norm = 1.0
[participation]
kind = "shuffle"
rounds = 3
clients_per_round = 2
[canaries]
count = 10
"""


def _commit(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    """A commitment to a config and its data, which are read for it."""
    kind = _of(random, tuple(_DATA))
    separator = (b",", b";", b"\t")[int(random.integers(3))]
    data = _DATA[kind].replace(b",", separator) if kind == "table" else _DATA[kind]
    (folder / "data.csv").write_bytes(_mostly_changed(random, data, ".csv"))
    config = _COMMITTED.format(kind=kind).encode()
    if kind == "text":
        config = config.replace(b'"data.csv"', b'"data.csv"\nlstm_size = 4\nembedding_size = 4')
    (folder / "config.toml").write_bytes(config)
    return ("commit", str(folder / "config.toml"), "--out", str(folder / "commitment.json"))


def _verify(random: np.random.Generator, folder: Path) -> tuple[str, ...]:
    place = folder / f"folder{_of(random, _ENDINGS)}"
    _hostile_folder(random, _valid_folder(random), place)
    return ("verify", str(place), *(["--json"] if random.random() < 0.3 else []))


_MAKERS: tuple[tuple[Make, float], ...] = (
    (_counts, 2),
    (_one_run, 2),
    (_mechanism, 1),
    (_mcmc, 1),
    (_estimate_file, 3),
    (_estimate_folder, 2),
    (_compare, 1),
    (_config, 3),
    (_show, 0.5),
    (_init, 0.5),
    (_completion, 0.1),
    (_attack, 0.5),
    (_sweep, 0.5),
    (_commit, 1),
    (_verify, 1),
)
"""The kinds of calls, each with its share."""


def _hostile_folder(random: np.random.Generator, source: Path, place: Path) -> None:
    """Copies a folder, and harms up to two of its files."""
    shutil.copytree(source, place)
    files = sorted(path for path in place.rglob("*") if path.is_file())
    for _ in range(int(random.integers(0, 3))):
        path = files[int(random.integers(len(files)))]
        if path.is_symlink() or not path.is_file() or path.stat().st_size > 1 << 30:
            continue  # harmed before
        content = path.read_bytes()
        path.unlink()
        match int(random.integers(12)):
            case 0:
                pass
            case 1:
                path.mkdir()
            case 2:
                path.symlink_to(place / "nothing")
            case 3:
                os.mkfifo(path)
            case 4:
                path.symlink_to(_of(random, ("/dev/zero", "/dev/null", "/dev/full", "/dev/tty")))
            case 5:
                path.symlink_to(_of(random, (path.name, "../..", "/etc/passwd", "/proc/self/mem")))
            case 6:
                with path.open("wb") as file:
                    file.truncate(1 << 40)
            case _:
                path.write_bytes(_changed(random, content, path.suffix))


def _hostile_file(random: np.random.Generator, source: Path, place: Path) -> None:
    """Copies a file, mostly after a change."""
    place.write_bytes(_mostly_changed(random, source.read_bytes(), source.suffix))


def _mostly_changed(random: np.random.Generator, content: bytes, suffix: str) -> bytes:
    return content if random.random() < 0.2 else _changed(random, content, suffix)


def _changed(random: np.random.Generator, content: bytes, suffix: str) -> bytes:
    """The content after up to four changes of what its format is made of."""
    for _ in range(int(random.integers(1, 5))):
        if suffix == ".npy" and random.random() < 0.4:
            content = _with_header(random, content)
        elif suffix in (".csv", ".json", ".toml") and random.random() < 0.6:
            content = _with_value(random, content, suffix)
        else:
            content = _with_bytes(random, content)
    return content


def _with_header(random: np.random.Generator, content: bytes) -> bytes:
    """An NPY file whose header promises something else."""
    start, found, rest = content.partition(b"'shape': ")
    end = rest.find(b")")
    if not found or end < 0:
        return content
    return start + found + _of(random, _HEADERS).encode() + rest[end + 1 :]


def _with_value(random: np.random.Generator, content: bytes, suffix: str) -> bytes:
    """Text in which one value is another one."""
    separator = {".csv": b",", ".json": b":", ".toml": b"="}[suffix]
    lines = content.split(b"\n")
    at = int(random.integers(len(lines)))
    parts = lines[at].split(separator)
    value = _of(random, _CELLS).encode("utf-8", "surrogatepass")
    parts[int(random.integers(len(parts)))] = value
    lines[at] = separator.join(parts)
    return b"\n".join(lines)


def _with_bytes(random: np.random.Generator, content: bytes) -> bytes:
    """Content that is cut, doubled in a part, or has other bytes in a place."""
    at, end = sorted(int(place) for place in random.integers(len(content) + 1, size=2))
    inserted = _BYTES[int(random.integers(len(_BYTES)))]
    match int(random.integers(6)):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + content[end:]
        case 2:
            return content[:end] + content[at:]
        case 3:
            return content[:at] + inserted + content[at:]
        case 4:
            return content[:at] + inserted + content[at + len(inserted) :]
        case _:
            return content[:at] + random.bytes(1) + content[at + 1 :]
