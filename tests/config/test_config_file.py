"""The TOML config: what it accepts, and the one line that it says of anything else."""

import tomllib
from pathlib import Path

import pytest

from fl_audit.config import (
    Bernoulli,
    DigitsTask,
    GaussianAdaptive,
    GaussianFixed,
    Shuffle,
)
from fl_audit.config.file import config_to_toml, load_config, parse_config
from fl_audit.errors import InputError
from tests.small_configs import SMALLEST

EVERYTHING = """
seed = 12345678901234567890
runtime = "local"
clients_per_block = 15
[task]
kind = "text"
path = "speech.csv"
vocabulary_size = 7
sequence_length = 6
embedding_size = 5
lstm_size = 4
max_sequences_per_client = 3
[client]
learning_rate = 0.3
batch_size = 2
epochs = 3
[server]
learning_rate = 0.7
momentum = 0.9
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 1.5
clip_norm = 0.25
[participation]
kind = "bernoulli"
rounds = 9
clients_per_round = 8
[canaries]
count = 11
max_per_round = 12
family = "gaussian"
store = "disk"
store_path = "canaries.bin"
[audit]
delta = 1e-12
confidence = 0.9
[log]
checkpoint_every = 13
evaluate_every = 14
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def message(folder: Path, text: str, *overrides: str) -> str:
    """The one line that refuses a config, without the file's name."""
    path = write(folder, text)
    with pytest.raises(InputError) as caught:
        load_config(path, overrides)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith((f"{path}: ", "--set "))
    return line.removeprefix(f"{path}: ")


def without(section: str) -> str:
    table = tomllib.loads(SMALLEST)
    del table[section]
    lines = [f"[{name}]\n" + "\n".join(map(assignment, t.items())) for name, t in table.items()]
    return "\n".join(lines)


def assignment(item: tuple[str, object]) -> str:
    key, value = item
    return f"{key} = '{value}'" if isinstance(value, str) else f"{key} = {value}"


def test_defaults_are_filled_in(tmp_path):
    config = load_config(write(tmp_path, SMALLEST))
    assert config.seed == 0
    assert config.task == DigitsTask(num_clients=300, hidden=(512, 256))
    assert config.mechanism == GaussianAdaptive(noise_multiplier=0.5)
    assert config.participation == Shuffle(rounds=10, clients_per_round=20, canary_repeats=1)
    assert config.audit.delta is None
    assert config.canaries.family == "rademacher"
    assert (config.canaries.store, config.canaries.store_path) == ("none", None)
    assert (config.runtime, config.clients_per_block) == ("auto", None)


@pytest.mark.parametrize(
    "task",
    [
        'kind = "digits"\nnum_clients = 7\nhidden = []',
        'kind = "stackoverflow"\nmax_clients = 5',
        'kind = "stackoverflow"\npath = "so.sqlite"\nword_counts = "so.word_count"',
        'kind = "emnist"\nmax_clients = 6',
        'kind = "emnist"\npath = "emnist.sqlite"',
    ],
)
@pytest.mark.parametrize("text", [SMALLEST, EVERYTHING])
def test_toml_round_trip(tmp_path, text, task):
    table = tomllib.loads(text) | {"task": tomllib.loads(task)}
    config = parse_config(table, "test")
    assert parse_config(tomllib.loads(config_to_toml(config)), "again") == config


def test_toml_round_trip_keeps_a_relative_path_where_it_pointed(tmp_path):
    config = load_config(write(tmp_path, EVERYTHING))
    elsewhere = tmp_path / "run"
    elsewhere.mkdir()
    assert load_config(write(elsewhere, config_to_toml(config))) == config


def test_resolved_toml_spells_out_defaults_and_leaves_out_none(tmp_path):
    table = tomllib.loads(config_to_toml(load_config(write(tmp_path, SMALLEST))))
    assert table["client"] == {
        "kind": "fed_avg",
        "learning_rate": 0.1,
        "batch_size": 16,
        "epochs": 1,
        "optimizer": "sgd",
        "momentum": 0.0,
    }
    assert table["mechanism"]["clip_norm"] == 0.1
    assert table["mechanism"]["kind"] == "gaussian_adaptive"
    assert "delta" not in table["audit"]
    assert "clipped_count_stddev" not in table["mechanism"]
    assert table["runtime"] == "auto"
    assert "clients_per_block" not in table
    assert table["canaries"]["store"] == "none"
    assert "store_path" not in table["canaries"]


@pytest.mark.parametrize(
    ("override", "get", "expected"),
    [
        ("seed=7", lambda c: c.seed, 7),
        (" seed = 7 ", lambda c: c.seed, 7),
        ("task.hidden=[3, 4]", lambda c: c.task.hidden, (3, 4)),
        ("task.hidden=[]", lambda c: c.task.hidden, ()),
        ("canaries.family=gaussian", lambda c: c.canaries.family, "gaussian"),
        ('canaries.family="gaussian"', lambda c: c.canaries.family, "gaussian"),
        ("mechanism.noise_multiplier=0", lambda c: c.mechanism.noise_multiplier, 0.0),
        ("mechanism.noise_multiplier=1e-3", lambda c: c.mechanism.noise_multiplier, 1e-3),
        ("audit.delta=1e-12", lambda c: c.audit.delta, 1e-12),
        ("runtime=native", lambda c: c.runtime, "native"),
        ("clients_per_block=4", lambda c: c.clients_per_block, 4),
        ("canaries.store=memory", lambda c: c.canaries.store, "memory"),
        (
            "participation.kind=bernoulli",
            lambda c: c.participation,
            Bernoulli(rounds=10, clients_per_round=20),
        ),
        (
            "mechanism={kind='gaussian_fixed', noise_multiplier=1, clip_norm=2}",
            lambda c: c.mechanism,
            GaussianFixed(noise_multiplier=1.0, clip_norm=2.0),
        ),
    ],
)
def test_override(tmp_path, override, get, expected):
    assert get(load_config(write(tmp_path, SMALLEST), [override])) == expected


@pytest.mark.parametrize(
    ("override", "get", "expected"),
    [
        ("task={kind='emnist', path='e.sqlite'}", lambda c: c.task.path, "e.sqlite"),
        ("task={kind='stackoverflow', path='../s.sqlite'}", lambda c: c.task.path, "../s.sqlite"),
        (
            "task={kind='stackoverflow', word_counts='sub/w.txt'}",
            lambda c: c.task.word_counts,
            "sub/w.txt",
        ),
        ("canaries.store_path=c.bin", lambda c: c.canaries.store_path, "c.bin"),
    ],
)
def test_a_files_path_starts_at_the_configs_folder(tmp_path, override, get, expected):
    config = load_config(write(tmp_path, SMALLEST), [override])
    assert get(config) == str((tmp_path / expected).resolve())


KINDS = ", ".join(
    (
        *("breast_cancer", "cifar10", "digits", "emnist", "npz", "numbers"),
        *("purchase100", "python", "stackoverflow", "table", "text", "wine"),
    )
)
BAD_VALUES = [
    # Unknown keys, the nearest named.
    ("sed=3", "unknown key `sed`; did you mean 'seed'?"),
    ("zzz=3", "unknown key `zzz`; known: audit, canaries, client, clients_per_block, dropouts, "),
    ("rounds=3", "unknown key `rounds`; did you mean `participation.rounds`?"),
    ("client.clip_norm=3", "unknown key `client.clip_norm`; did you mean `mechanism.clip_norm`?"),
    (
        "learning_rate=3",
        "unknown key `learning_rate`; did you mean `client.learning_rate` or "
        "`server.learning_rate`?",
    ),
    ("canary.count=3", "unknown key `canary`; did you mean 'canaries'?"),
    ("canaries.kind=gaussian", "key `canaries.kind`: unknown 'gaussian'; known: examples, vectors"),
    # A key of another variant is unknown to this one.
    ("task.lstm_size=3", "unknown key `task.lstm_size`; known: hidden, kind, num_clients"),
    # Kinds and families.
    ("task.kind=digit", "key `task.kind`: unknown 'digit'; did you mean 'digits'?"),
    ("task.kind=3", f"key `task.kind`: unknown 3; known: {KINDS}"),
    ("task.kind={a=1}", f"key `task.kind`: unknown {{'a': 1}}; known: {KINDS}"),
    ("task={num_clients=3}", "key `task.kind` is missing; one of "),
    ("mechanism={}", "key `mechanism.kind` is missing; one of gaussian_adaptive, gaussian_fixed"),
    ("canaries.family=gaus", "key `canaries.family`: unknown 'gaus'; did you mean 'gaussian'?"),
    (
        "canaries.family=[1]",
        "key `canaries.family`: unknown [1]; known: dirac, gaussian, hadamard, rademacher",
    ),
    ("runtime=3", "key `runtime`: must be text, got "),
    ("runtime={a=1}", "key `runtime` takes a value, not a table"),
    ("ray.engine=jx", "key `ray.engine`: unknown 'jx'; did you mean 'jax'?"),
    (
        "task={kind='emnist', word_counts='w'}",
        "unknown key `task.word_counts`; known: kind, max_clients, path",
    ),
    # Missing keys of the chosen variant.
    ("task.kind=text", "key `task.path` is missing"),
    # Types.
    ("seed=true", "key `seed`: must be a whole number, got "),
    ("seed=1.5", "key `seed`: must be a whole number, got "),
    ("seed=", "key `seed`: must be a whole number, got "),
    ("seed=2020-01-01", "key `seed`: must be a whole number, got "),
    ("task=digits", "key `task`: must be a table, got "),
    ("task.hidden=512", "key `task.hidden`: must be a list, got "),
    ("task.hidden={a=1}", "key `task.hidden` takes a value, not a table"),
    ("task.hidden=[1, true]", "key `task.hidden[1]`: must be a whole number, got "),
    ("task.hidden=[{a=1}]", "key `task.hidden[0]`: must be a whole number, got a table"),
    ("mechanism.noise_multiplier=true", "key `mechanism.noise_multiplier`: must be a number, got "),
    # Ranges, one of each kind: docs/config.md, which a test compares, has those of every key.
    ("seed=-1", "key `seed`: must be a whole number of at least 0, got -1"),
    (
        "task.num_clients=1501",
        "key `task.num_clients`: must be a whole number of at most 1500, got 1501",
    ),
    ("task.hidden=[4, 0]", "key `task.hidden[1]`: must be a whole number of at least 1"),
    (
        "mechanism.noise_multiplier=-0.1",
        "key `mechanism.noise_multiplier`: must be a number of at least 0, got -0.1",
    ),
    ("mechanism.clip_norm=0", "key `mechanism.clip_norm`: must be a number above 0, got 0"),
    (
        "mechanism.target_quantile=1.1",
        "key `mechanism.target_quantile`: must be a number of at most 1, ",
    ),
    ("canaries.count=1", "key `canaries`: count must be at least 2, or 0 for no canaries, got 1"),
    ("audit.confidence=95", "key `audit.confidence`: must be a number below 1, got 95"),
    (
        "task.hidden=[2000000000]",
        "key `task.hidden[0]`: must be a whole number of at most 1000000000",
    ),
    (f"task.hidden={[1] * 101}", "key `task.hidden`: must be a list of at most 100 items, got"),
    (
        "mechanism.clip_norm=1e-40",
        "key `mechanism.clip_norm`: must be 0 or between 1e-30 and 1e+30 in size, got 1e-40",
    ),
    (
        "client.learning_rate=" + "9" * 400,
        "key `client.learning_rate`: must be a whole number within 64 bits, got 999",
    ),
    # Not finite.
    ("mechanism.noise_multiplier=inf", "key `mechanism.noise_multiplier`: must be finite, got inf"),
    ("mechanism.noise_multiplier=nan", "key `mechanism.noise_multiplier`: must be finite, got nan"),
    ("seed=1e400", "key `seed`: must be finite, got inf"),
    # Overrides that are none.
    ("seed", "--set seed: must be section.key=value"),
    ("=3", "--set =3: must be section.key=value"),
    ("audit.=3", "--set audit.=3: must be section.key=value"),
    ("task.kind.x=3", "--set task.kind.x=3: `kind` is a value, not a section"),
    ("task.hidden.x.y=3", "key `task.hidden` takes a value, not a table"),
]


@pytest.mark.parametrize(("override", "expected"), BAD_VALUES, ids=[o[:40] for o, _ in BAD_VALUES])
def test_bad_value_is_one_line(tmp_path, override, expected):
    assert message(tmp_path, SMALLEST, override).startswith(expected)


@pytest.mark.parametrize("section", ["task", "mechanism", "participation", "canaries"])
def test_missing_section(tmp_path, section):
    assert message(tmp_path, without(section)) == f"section [{section}] is missing"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("noise_multiplier = 0.5", "key `mechanism`: noise_multiplier (or epsilon) is missing"),
        ("rounds = 10", "key `participation.rounds` is missing"),
        ("count = 500", "key `canaries.count` is missing"),
        (
            'kind = "shuffle"',
            "key `participation.kind` is missing; one of shuffle, bernoulli, uniform, "
            "every_round, min_separation, cyclic_poisson, balls_in_bins, random_allocation, "
            "b_min_sep, replay",
        ),
    ],
)
def test_missing_key(tmp_path, line, expected):
    assert message(tmp_path, SMALLEST.replace(line, "")) == expected


@pytest.mark.parametrize("kind", ["tree_aggregation", "matrix_factorisation"])
def test_an_adaptive_clip_under_correlated_noise_is_refused_with_the_reason(tmp_path, kind):
    said = message(
        tmp_path, SMALLEST.replace("gaussian_adaptive", kind), "mechanism.target_quantile=0.5"
    )
    assert said.startswith(
        "key `mechanism.target_quantile`: belongs to an adaptive clip norm; corr"
    )


@pytest.mark.parametrize("text", ["x = [", "seed = 1\nseed = 2", "[task\n", "seed: 1", "a = 'x\n'"])
def test_not_toml(tmp_path, text):
    assert message(tmp_path, text).startswith("is not TOML: ")


def test_a_file_that_is_a_link_keeps_its_own_name(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "data").symlink_to("real")
    (tmp_path / "real" / "3fa9").touch()
    (tmp_path / "real" / "e.sqlite").symlink_to("3fa9")
    config = load_config(write(tmp_path, SMALLEST), ["task={kind='emnist', path='data/e.sqlite'}"])
    assert config.task.path == str(tmp_path.resolve() / "real" / "e.sqlite")
