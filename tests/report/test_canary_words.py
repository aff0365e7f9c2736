"""What a report says of canaries that hold examples."""

import dataclasses

import msgspec
import pytest

from fl_audit.config import ExampleCanaries
from fl_audit.report.finished_run import read_finished_run
from fl_audit.report.words import run_facts


@pytest.mark.parametrize(
    ("canaries", "sentence"),
    [
        (
            ExampleCanaries(source="in_distribution", count=200),
            "canaries that each hold all examples of a client taken out of the population, a fair",
        ),
        (
            ExampleCanaries(source="mislabelled", count=200, examples_per_canary=1),
            "canaries that each hold 1 example of a client taken out of the population, "
            "mislabelled, a fair",
        ),
        (
            ExampleCanaries(source="file", path="own.csv"),
            "canaries that each hold the examples of a client of the user’s file, a fair",
        ),
    ],
)
def test_what_canaries_hold(run_folder, canaries, sentence):
    run = read_finished_run(run_folder)
    config = msgspec.structs.replace(run.config, canaries=canaries)
    text = " ".join(run_facts(dataclasses.replace(run, config=config)).values())
    assert f"Of 200 {sentence} coin each included 94" in text


def test_a_fixed_half_and_no_canaries(run_folder):
    run = read_finished_run(run_folder)
    half = msgspec.structs.replace(run.config.canaries, inclusion="fixed_half")
    config = msgspec.structs.replace(run.config, canaries=half)
    said = run_facts(dataclasses.replace(run, config=config))["Canaries"]
    assert "a half drawn at random was included, 94; an included canary took part in" in said
    assert "guess about coins need one for each canary, and are left out." in said
    without = dataclasses.replace(run, record=dataclasses.replace(run.record, num_canaries=0))
    assert run_facts(without)["Canaries"] == "There are no canaries, so that nothing is audited."
