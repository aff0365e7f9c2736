"""run.json: the record of a run, written and read."""

import dataclasses

import pytest

from fl_audit.accounting.release import Denominator, Grid, Noise, Party, Release
from fl_audit.accounting.sampling import (
    FixedRounds,
    OncePerBlock,
    OneGroup,
    OneRoundPerBlock,
    UnknownRounds,
)
from fl_audit.accounting.samplings.balls_in_bins import BallsInBinsSampling
from fl_audit.accounting.samplings.cyclic_poisson import CyclicPoissonSampling
from fl_audit.accounting.samplings.fixed_size import FixedSizeSampling
from fl_audit.accounting.samplings.min_separation import MinSeparationSampling
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.accounting.samplings.random_allocation import AllocatedRounds
from fl_audit.accounting.samplings.truncated_poisson import TruncatedPoissonSampling
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.run_record import RunRecord, read_record, record_text

RECORD = RunRecord(
    task="digits",
    runtime="native",
    dim=167_178,
    num_clients=300,
    num_canaries=500,
    num_included=251,
    delta=1e-12,
    release=Release(
        rounds=100,
        noise=Noise("gaussian", 0.3, 0.31182069023261244, 0.55),
        denominator=Denominator("expected_cohort", 22.51),
        client=Party(FixedRounds(7)),
        canary=Party(PoissonSampling(20 / 300)),
    ),
    accuracy=0.94,
    accuracy_description="share of images right",
    training_seconds=12.5,
    scoring_seconds=0.5,
    versions={"numpy": "1.25.2"},
    finished="2026-11-22T12:00:00+00:00",
)


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return RunFolder(tmp_path)


def test_record_round_trip(folder):
    folder.record.write_text(record_text(RECORD))
    assert read_record(folder) == RECORD


@pytest.mark.parametrize(
    "sampling",
    [
        FixedRounds(7),
        OncePerBlock(7, length=10),
        OncePerBlock(7, length=10, longer=2),
        OneGroup(7, separation=10),
        OneRoundPerBlock(7, blocks=((10, 6), (15, 1))),
        BallsInBinsSampling(bins=10, rounds=100),
        AllocatedRounds(number=3, rounds=100),
        MinSeparationSampling(0.1, separation=5, rounds=100),
        PoissonSampling(0.1),
        TruncatedPoissonSampling(0.1, members=300, largest=40),
        CyclicPoissonSampling(0.1, separation=4, turns=25),
        FixedSizeSampling(40, 500),
        UnknownRounds(),
    ],
    ids=lambda sampling: type(sampling).__name__,
)
@pytest.mark.parametrize(
    "correlation",
    [None, Trees(100), Trees(100, restart_every=10), Toeplitz((1.0, 0.5), num_rounds=100)],
)
def test_every_release_is_read_as_it_was_written(folder, sampling, correlation):
    release = dataclasses.replace(
        RECORD.release,
        client=Party(sampling, squared_sensitivity=7.0),
        canary=Party(sampling),
        noise=dataclasses.replace(RECORD.release.noise, grid=Grid(1000.0, 0.01)),
        correlation=correlation,
        fewest=20,
    )
    record = dataclasses.replace(RECORD, release=release)
    folder.record.write_text(record_text(record))
    assert read_record(folder) == record


@pytest.mark.parametrize(
    "text", ["", "{", '{"format_version": 1, "task": "digits"}', "[]", "3", "null"]
)
def test_damaged_record(folder, text):
    folder.record.write_text(text)
    with pytest.raises(InputError, match=r"run\.json: is not a run record: ") as caught:
        read_record(folder)
    assert "\n" not in str(caught.value)


def test_record_with_a_value_of_another_type(folder):
    folder.record.write_text(record_text(RECORD))
    folder.record.write_text(
        folder.record.read_text().replace(f'"dim": {RECORD.dim}', '"dim": "x"')
    )
    with pytest.raises(InputError, match=r"expected a whole number, got 'x' - at `\$\.dim`$"):
        read_record(folder)
