"""The sentences of a report."""

from fl_audit.report.finished_run import read_finished_run
from fl_audit.report.words import run_facts


def test_description_tells_effective_from_added_noise(run_folder):
    text = " ".join(run_facts(read_finished_run(run_folder)).values())
    assert "d = 100,000 trainable parameters, trained for 40 rounds on 300 clients" in text
    assert "30 clients a round, each client in at most 4 rounds" in text
    assert "Of 200 Rademacher canaries, a fair coin each included 94" in text
    assert "an included canary took part in 1 round." in text
    assert "the effective noise multiplier is 0.3, made of Gaussian noise of 0.301" in text
    assert "1.60 clients on the count" in text
    assert "The seed is 1." in text


def test_description_of_canaries_that_appear_unequally_often(run_folder):
    lines = run_folder.canaries.read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.split(",")[1] == "1")
    lines[first] = f"{first - 1},1,3 5 9"
    run_folder.canaries.write_text("\n".join(lines) + "\n")
    text = " ".join(run_facts(read_finished_run(run_folder)).values())
    assert "an included canary took part in 1 to 3 rounds, 1 at the median" in text
