"""Commitments: what a stranger gets, what opens them, and which runs are listed under them."""

import datetime
import hashlib
import hmac
import json
import stat
import tomllib

import pytest

from fl_audit.config import Canaries, Config, DigitsTask, GaussianFixed, Shuffle
from fl_audit.config.commitment import (
    check_committed,
    commitment_to,
    committed_keys,
    make_commitment,
    open_commitment,
    opening_of,
    read_nonce,
    recorded_keys,
    tries_of,
    write_commitment,
)
from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.config.inputs import Inputs, write_recorded_inputs
from fl_audit.config.tries import begin_try, check_same_try, list_try, read_tries, read_try
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_chain import ChainWriter
from fl_audit.tasks.task_kinds import PythonTask


def _config(seed=7, **audit):
    return parse_config(
        {
            "seed": seed,
            "task": {"kind": "digits"},
            "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 0.1, "clip_norm": 1.0},
            "participation": {"kind": "shuffle", "rounds": 5, "clients_per_round": 3},
            "canaries": {"count": 10},
            "audit": {"claimed_epsilon": 4.0, **audit},
        },
        "config",
    )


INPUTS = Inputs(
    {"mechanism.coefficients": "ab"}, {"my_task": "cd"}, {"task": "digits"}, 300, 1500, "ef"
)


@pytest.fixture
def committed(tmp_path):
    path = tmp_path / "commitment.json"
    write_commitment(path, commitment_to(_config(), INPUTS))
    return path


def test_what_is_published_has_claim_and_method_in_plain_and_no_seed(committed):
    said = json.loads(committed.read_text())
    assert said["claim"] == {"claimed_epsilon": 4.0}
    assert said["method"]["verdict_statistic"] == "all"
    assert said["method"]["estimators"] == ["threshold_valid", "one_run_valid"]
    assert all(len(value) == 64 for value in said["config"].values())
    assert open_commitment(committed).nonce not in committed.read_text()


def test_no_seed_is_found_by_trying_small_ones_without_the_opening(committed):
    said = json.loads(committed.read_text())["config"]["seed"]
    for seed in range(1000):
        for text in (f"seed={seed}", f"{seed}", json.dumps({"seed": seed})):
            assert hashlib.sha256(text.encode()).hexdigest() != said
            for key in (b"", bytes(32), b"seed"):
                assert hmac.new(key, text.encode(), hashlib.sha256).hexdigest() != said
    opened = open_commitment(committed)
    keys = committed_keys(_config()) | INPUTS.keys()
    fitting = [seed for seed in range(1000) if not opened.others({**keys, "seed": seed})]
    assert fitting == [7]


@pytest.mark.parametrize(
    ("options", "other"),
    [
        ({"a.b": 1}, {"a": {"b": 1}}),
        ({"a": {}}, {}),
        ({"a.b": {}, "c": {"d.e": {"f": 1}}}, {"a.b": {}, "c": {"d": {"e.f": 1}}}),
        ({"since": datetime.date(2020, 1, 1)}, {"since": "2020-01-01"}),
        ({"at": datetime.time(7, 30)}, {"at": repr(datetime.time(7, 30))}),
    ],
)
def test_options_of_a_task_survive_toml_and_fit_no_others(options, other):
    keys = []
    for each in (options, other):
        config = Config(
            task=PythonTask(module="my_task:make", options=each),
            mechanism=GaussianFixed(noise_multiplier=0.1, clip_norm=1.0),
            participation=Shuffle(rounds=5, clients_per_round=3),
            canaries=Canaries(count=10),
        )
        assert tomllib.loads(config_to_toml(config))["task"]["options"] == each
        keys.append(committed_keys(config))
    opened = make_commitment(keys[0], {}, {})
    assert opened.others(keys[0]) == []
    assert opened.others(keys[1]) != []


def test_two_commitments_to_one_config_have_nothing_in_common():
    one, other = (commitment_to(_config(), INPUTS).commitment.config for _ in range(2))
    assert one.keys() == other.keys()
    assert not set(one.values()) & set(other.values())


def test_the_opening_is_for_its_owner_alone(committed):
    assert stat.S_IMODE(opening_of(committed).stat().st_mode) == 0o600


def test_a_commitment_is_never_replaced(committed):
    with pytest.raises(InputError, match=r"exists already, and a commitment is never replaced"):
        write_commitment(committed, commitment_to(_config(), INPUTS))
    committed.unlink()
    with pytest.raises(InputError, match=r"commitment\.json\.opening: exists already"):
        write_commitment(committed, commitment_to(_config(), INPUTS))


def test_another_config_is_refused_by_its_first_other_key(committed):
    keys = committed_keys(_config()) | INPUTS.keys()
    assert check_committed(committed, _config()).others(keys) == []
    with pytest.raises(InputError, match=r"key `seed` is 8, which is not what was committed to$"):
        check_committed(committed, _config(8))
    with pytest.raises(InputError, match=r"key `audit\.claimed_epsilon` is 5\.0, which is not"):
        check_committed(committed, _config(8, claimed_epsilon=5.0))
    with pytest.raises(InputError, match=r"key `audit\.delta` is 0\.1, which is not"):
        check_committed(committed, _config(delta=0.1))


def test_a_key_that_was_committed_to_and_is_not_set_is_named(tmp_path):
    path = tmp_path / "commitment.json"
    write_commitment(path, commitment_to(_config(delta=0.1), INPUTS))
    with pytest.raises(InputError, match=r"key `audit\.delta` is not set, which is not what"):
        check_committed(path, _config())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("commitment.json", "{}", "is not a commitment of `fl-audit commit`"),
        ("commitment.json.opening", '{"nonce": "12"}', "nonce must be 64 hexadecimal digits"),
        ("commitment.json.opening", '{"nonce": "' + "zz" * 32 + '"}', "must be 64 hexadecimal"),
        ("commitment.json.opening", None, r"is missing; `fl-audit commit` wrote it next to"),
    ],
)
def test_a_damaged_file_is_one_line(committed, name, text, message):
    path = committed.with_name(name)
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=message):
        open_commitment(committed)


def _begun(committed, path):
    folder = RunFolder(path)
    path.mkdir()
    folder.config.write_text(config_to_toml(_config()))
    write_recorded_inputs(folder, INPUTS)
    begin_try(committed, open_commitment(committed), folder)
    ChainWriter.begin(folder.chain, folder.identity())
    return folder


def test_every_run_is_listed_once(committed, tmp_path):
    runs = [_begun(committed, tmp_path / "one")]
    assert list_try(committed, runs[0]) == 1
    runs.append(_begun(committed, tmp_path / "two"))
    assert [list_try(committed, run) for run in (runs[1], runs[0], runs[1])] == [2, 1, 2]
    assert [one.folder for one in read_tries(tries_of(committed))] == ["one", "two"]
    assert [read_try(run).number for run in runs] == [1, 2]
    opened = open_commitment(committed)
    for run in runs:
        assert opened.nonce not in run.commitment.read_text()
        assert read_nonce(run.opening) == opened.nonce
        assert stat.S_IMODE(run.opening.stat().st_mode) == 0o600
    assert opened.others(recorded_keys(runs[1])) == []
    check_same_try(committed, opened, runs[1])


def test_a_run_without_a_commitment_does_not_go_on_under_one(committed, tmp_path):
    opened = open_commitment(committed)
    with pytest.raises(InputError, match="was begun without a commitment"):
        check_same_try(committed, opened, RunFolder(tmp_path / "none"))
    folder = _begun(committed, tmp_path / "run")
    with pytest.raises(InputError, match="was begun under another commitment"):
        check_same_try(committed, make_commitment({}, {}, {}), folder)


@pytest.mark.parametrize(
    ("change", "line"),
    [(lambda lines: lines[1:], 1), (lambda lines: [lines[0], lines[0]], 2), (reversed, 1)],
)
def test_a_list_with_lines_that_do_not_follow_is_refused(committed, tmp_path, change, line):
    for name in ("one", "two"):
        list_try(committed, _begun(committed, tmp_path / name))
    tries = tries_of(committed)
    tries.write_text("".join(change(tries.read_text().splitlines(keepends=True))))
    with pytest.raises(InputError, match=f"line {line} does not follow from those before it"):
        read_tries(tries)


def test_the_config_class_has_the_same_keys_as_its_file(tmp_path):
    config = Config(
        task=DigitsTask(),
        mechanism=GaussianFixed(noise_multiplier=0.1, clip_norm=1.0),
        participation=Shuffle(rounds=5, clients_per_round=3),
        canaries=Canaries(count=10),
    )
    folder = RunFolder(tmp_path)
    folder.config.write_text(config_to_toml(config))
    write_recorded_inputs(folder, INPUTS)
    assert committed_keys(config) | INPUTS.keys() == recorded_keys(folder)
