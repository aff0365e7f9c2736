"""The sentences of a report."""

import pytest

from fl_audit.report.finished_run import read_finished_run
from fl_audit.report.words import description, findings


def report(final, largest, canary, client):
    def fit(epsilon):
        found = [
            {"method": "gaussian_fit", "epsilon": epsilon},
            {"method": "threshold_valid", "epsilon": 0.25},
        ]
        return {"estimates": found if epsilon else [], "confidence": 0.95}

    return {
        "statistics": {"final_minus_initial": fit(final), "max": fit(largest)},
        "run": {"delta": 1e-3},
        "analytical": {"canary": {"epsilon": canary}, "client": {"epsilon": client}},
    }


@pytest.mark.parametrize(
    ("epsilons", "seen", "guaranteed"),
    [
        ((1.5, 20.0, 30.0, 30.0), ("1.50", "20.0"), "ε ≤ 30.0; what lies between"),
        ((1.5, 20.0, 30.0, 60.0), ("1.50", "20.0"), "ε ≤ 30.0 to a canary and ε ≤ 60.0 to a real"),
        ((1.5, 40.0, 30.0, 60.0), ("1.50", "40.0"), "above the canary’s is chance"),
        ((1.5, "inf", 30.0, 30.0), ("1.50", "∞"), "above the canary’s is chance"),
        ((1.5, 40.0, "inf", "inf"), ("1.50", "40.0"), "No noise was added"),
        ((None, 40.0, 50.0, None), ("unknown", "40.0"), "is not known for this run."),
    ],
)
def test_findings_are_three_sentences(epsilons, seen, guaranteed):
    sentences = [s.replace("\N{NO-BREAK SPACE}", " ") for s in findings(report(*epsilons))]
    assert len(sentences) == 3
    assert f"ε ≈ {seen[0]} allows (δ = 0.00100)" in sentences[0]
    assert sentences[0].endswith(f"ε ≈ {seen[1]}.")
    first = "unknown" if epsilons[0] is None else "0.250"
    assert sentences[1].startswith(f"With 95 % confidence each, ε ≥ {first} for the first and")
    assert "ε ≥ 0.250 for the second" in sentences[1]
    assert guaranteed in sentences[2]
    assert sentences[2].endswith(".")


def test_description_tells_effective_from_added_noise(run_folder):
    text = " ".join(description(read_finished_run(run_folder)))
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
    text = " ".join(description(read_finished_run(run_folder)))
    assert "an included canary took part in 1 to 3 rounds, 1 at the median" in text
