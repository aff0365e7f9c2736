"""The runs of Stack Overflow's stand-in, whose numbers stand on its page."""

import re

import pytest
from experiment_pages import ROOT, page_text, run_config, table_rows

FOLDER = ROOT / "experiments/stackoverflow"


@pytest.mark.slow
@pytest.mark.tff
@pytest.mark.parametrize("noise", ["0", "0.2344"])
def test_rows_of_the_tables(noise, tmp_path):
    from experiments.stackoverflow import figures, stand_in, tables

    stand_in.write(tmp_path, clients=3000, fewer=8.0, seed=1)
    settings = [
        f"task.path={tmp_path / 'stackoverflow.sqlite'}",
        f"task.word_counts={tmp_path / 'stackoverflow.word_count'}",
        f"mechanism.noise_multiplier={noise}",
    ]
    run_config(FOLDER / "small.toml", tmp_path / "runs/run", settings)
    runs = tables.read_runs(tmp_path)
    found = [cells(line) for table in _printed(runs, tables) for line in table]
    printed = [row for row in found if row[0] == noise]
    # Accuracy; the four of Table 3; the valid ones. The page leaves out the column of RDP.
    here = [printed[0][4], *printed[1][4::2], *printed[2][1:]]
    section = page_text("stackoverflow").partition("## On a stand-in")[2]
    accuracies, third, valid, *_ = (row for row in table_rows(section) if row[0] == noise)
    shown = [accuracies[4], *third[2::2], *valid[1:]]
    if noise == "0":
        (by_participations,) = figures.read_settings(tmp_path).values()
        here.append(figures.table({0.0: by_participations})[2].split(" | ")[-2])
        (densities,) = (row for row in table_rows(section) if row[0] == noise and len(row) == 6)
        shown.append(densities[1].split()[0])
    if noise == "0":
        assert [number for cell in here for number in numbers(cell)] == pytest.approx(
            [number for cell in shown for number in numbers(cell)], rel=0.01
        )
    else:
        assert here[-1] == shown[-1]
        (a, *ends), (b, *others) = numbers(here[-2]), numbers(shown[-2])
        # Noise is not seeded: two estimates differ by 5 standard errors in 6e-7 of runs.
        error = ((ends[1] - ends[0]) ** 2 + (others[1] - others[0]) ** 2) ** 0.5 / 2 / 1.96
        assert abs(a - b) < 5 * error


def _printed(runs, tables):
    return tables.table_2(runs), tables.table_3(runs), tables.valid_table(runs)


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def numbers(cell):
    return [float(word.replace(",", "")) for word in re.findall(r"\d[\d,.]*", cell)]
