"""The chain of a folder's lines: links, rows, and files that belong together."""

import msgspec
import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.formats.round_chain import (
    ChainWriter,
    ChangedRow,
    Logged,
    Resumed,
    Scored,
    digests_of,
    link_of,
    read_chain,
)

ROUNDS = 6


@pytest.fixture
def folder(tmp_path):
    """A chain of six rounds with two logs, scored."""
    (tmp_path / "config.toml").write_text("seed = 1\n")
    (tmp_path / "scores_max.csv").write_text("canary_id,included,score\n0,1,0.5\n1,0,0.25\n")
    np.save(tmp_path / "cosines.npy", np.arange(3 * ROUNDS, dtype=np.float32).reshape(ROUNDS, 3))
    chain = ChainWriter.begin(tmp_path / "chain.jsonl", [tmp_path / "config.toml"])
    metrics = tmp_path / "metrics.csv"
    metrics.write_text("round,loss\n")
    for number in range(1, ROUNDS + 1):
        with metrics.open("a") as file:
            file.write(f"{number},{1 / number}\n")
        chain.log_round(number, [tmp_path / "cosines.npy", metrics])
    chain.add(Scored(rounds=ROUNDS, files=digests_of([tmp_path / "scores_max.csv"])))
    return tmp_path


def test_nothing_has_changed_in_what_was_written(folder):
    chain = read_chain(folder / "chain.jsonl")
    assert (chain.broken, chain.torn, chain.changed_rows(folder)) == ((), False, ())
    assert [line.round for line in chain.rounds.values()] == [1, 2, 3, 4, 5, 6]
    assert (chain.scored_rounds, chain.changed(folder)) == (ROUNDS, [])


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (lambda lines: [*lines[:3], *lines[4:]], (4,)),  # dropped
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], (4,)),  # repeated
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], (3, 4, 5)),  # swapped
        (lambda lines: [*lines[:2], lines[2].replace('"round":2', '"round":7'), *lines[3:]], (3,)),
        (lambda lines: [lines[0].replace('"config.toml":"', '"config.toml":"0'), *lines[1:]], (1,)),
    ],
)
def test_lines_that_do_not_follow_are_named(folder, change, broken):
    path = folder / "chain.jsonl"
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))
    assert read_chain(path).broken == broken
    with pytest.raises(InputError, match=f"line {broken[0]} does not follow from the one before"):
        read_chain(path).check(path)


def test_a_row_that_has_changed_is_named_with_its_round(folder):
    rows = np.load(folder / "cosines.npy")
    rows[[2, 4]] = rows[[4, 2]]
    np.save(folder / "cosines.npy", rows)
    metrics = folder / "metrics.csv"
    metrics.write_text(metrics.read_text().replace("0.25", "0.26"))
    chain = read_chain(folder / "chain.jsonl")
    assert chain.changed_rows(folder) == (
        ChangedRow("cosines.npy", 3),
        ChangedRow("cosines.npy", 5),
        ChangedRow("metrics.csv", 4),
    )
    assert chain.changed(folder) == ["cosines.npy", "metrics.csv"]


def test_a_part_of_a_chain_knows_its_own_faults_alone(folder):
    path = folder / "chain.jsonl"
    *lines, last = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, last.replace("scores_max", "scores_sum"), '{"what"']))
    chain = read_chain(path)
    assert (chain.broken, chain.torn) == ((ROUNDS + 2,), True)
    part = chain.until(chain.lines[-2].link)
    assert (part.broken, part.torn, len(part.lines)) == ((), False, ROUNDS + 1)


def test_rounds_behind_the_last_scores_make_them_old(folder):
    ChainWriter.go_on(folder / "chain.jsonl").log_round(1, [folder / "cosines.npy"])
    chain = read_chain(folder / "chain.jsonl")
    assert chain.scored_rounds == 0
    assert "cosines.npy" in chain.changed(folder)
    assert chain.changed_files(folder, ["config.toml"]) == []


def test_a_torn_last_line_counts_for_nothing_and_is_cut_off(folder):
    path = folder / "chain.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"what":"resu')
    assert read_chain(path).torn
    ChainWriter.go_on(path).add(Resumed(rounds=4))
    chain = read_chain(path)
    assert path.read_bytes().startswith(whole)
    assert (chain.broken, sorted(chain.rounds)) == ((), [1, 2, 3, 4])


def test_a_link_is_of_all_that_a_line_says():
    line = Logged(round=3, rows={"a.npy": "00"})
    links = {
        link_of(other, before)
        for before in ("", "0a")
        for other in (
            line,
            msgspec.structs.replace(line, round=4),
            msgspec.structs.replace(line, rows={"b.npy": "00"}),
            msgspec.structs.replace(line, rows={"a.npy": "01"}),
            msgspec.structs.replace(line, step=1),
            Resumed(rounds=3),
        )
    }
    assert len(links) == 12


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no line"),
        ("{}\n", "line 1: is not a valid line of a chain"),
        ('{"what":"resumed","link":"","rounds":1}\n', "must be `begun`"),
        ('{"what":"begun","link":"","files":{"../x":""}}\n', "must name files in its folder"),
        ('{"what":"begun","link":"","files":{},"format_version":2}\n', "format_version is 2, must"),
        (
            '{"what":"begun","link":"","files":{"a":"0"}}\n' * 2,
            "line 2: the first line, and no other",
        ),
    ],
)
def test_what_is_no_chain_is_refused(tmp_path, text, message):
    path = tmp_path / "chain.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_chain(path)
