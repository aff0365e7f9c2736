"""Mutants of source: what is changed, and that nothing else is."""

import ast
import sys

import numpy as np
import pytest
from experiment_pages import row_of, table_rows

from experiments.mutants.mutate import mutants

SOURCE = '''
class Query:
    """Adds noise."""

    def release(self, total, state):
        """Clips and adds noise."""
        if state.clip < 0:
            raise ValueError("no clip")
        assert total
        total = min(total, state.clip)
        return total + state.stddev * 2


class Other:
    def release(self, total):
        return total + 1
'''


def bodies(made):
    """The last two statements of each mutant's method."""
    return {
        one.name.partition(" ")[2]: [
            ast.unparse(part) for part in ast.parse(one.source).body[0].body[1].body[-2:]
        ]
        for one in made
    }


def test_every_place_is_changed_alone():
    made = mutants(SOURCE, ("Query",))
    first, last = "total = min(total, state.clip)", "return total + state.stddev * 2"
    assert bodies(made) == {
        "line dropped": ["pass", last],
        "call dropped": ["total = total", last],
        "call dropped for its second argument": ["total = state.clip", last],
        "arguments swapped": ["total = min(state.clip, total)", last],
        "stddev in place of clip": ["total = min(total, state.stddev)", last],
        "operator": [first, "return total + state.stddev / 2"],
        "clip in place of stddev": [first, "return total + state.clip * 2"],
        "number doubled": [first, "return total + state.stddev * 4"],
        "number 0": [first, "return total + state.stddev * 0.0"],
    }
    # Both operators have one name but for their places, and the dictionary above keeps the last.
    assert len(made) == 10
    assert len({one.name for one in made}) == 10
    assert all(ast.dump(ast.parse(SOURCE)) != ast.dump(ast.parse(m.source)) for m in made)
    others = {ast.dump(ast.parse(one.source).body[1]) for one in made}
    assert others == {ast.dump(ast.parse(SOURCE).body[1])}


@pytest.mark.tff
@pytest.mark.slow
def test_what_is_found_of_tensorflow_privacy(monkeypatch, tmp_path, capsys):
    """Every mutant again: a minute and a half of CPU time."""
    from experiments.mutants import run

    words = ["", "tensorflow_privacy", str(tmp_path / "mutants.jsonl")]
    for more in ([], ["--table"]):
        monkeypatch.setattr(sys, "argv", [*words, *more])
        run.main()
    found = [row for row in table_rows(capsys.readouterr().out) if row[1:2] != ["mutants"]]
    assert [row[0] for row in found][-1] == "all"
    for module, *cells in found:
        name = module if module == "all" else f"`{module}`"
        assert row_of("mutants", name) == cells


@pytest.mark.tff
@pytest.mark.slow
def test_a_count_without_noise_is_another_law_and_found_by_replay():
    from experiments.mutants import distributions, queries, tools

    module = "quantile_estimator_query"
    source = queries.source(module)
    silent = source.replace("stddev=below_estimate_stddev", "stddev=0.0")
    with queries.loaded("", "", fast=True) as modules:
        original = distributions.fingerprint(queries.rounds_of(module, 0, modules), 1.0)
    with queries.loaded(module, silent, fast=True) as modules:
        rounds = queries.rounds_of(module, 0, modules)
        assert not distributions.are_equal(distributions.fingerprint(rounds, 1.0), original)
        assert distributions.mu(rounds) > 100
        assert tools.replay(rounds) == ["count_noise"]


@pytest.mark.tff
@pytest.mark.slow
def test_our_own_queries_have_the_mu_of_their_matrix_and_one_key_for_two_variables_is_found():
    from experiments.mutants import distributions, own_queries, tools

    module = "tff_aggregators"
    with own_queries.loaded("", "") as modules:
        for at, subject in enumerate(own_queries.SUBJECTS_OF[module]):
            rounds = own_queries.rounds_of(module, at, modules)
            promised = np.linalg.norm(subject.correlation.column) / distributions.NOISE_MULTIPLIER
            assert distributions.mu(rounds) == pytest.approx(promised, rel=1e-3)
        original = distributions.fingerprint(own_queries.rounds_of(module, 0, modules), 1.0)
    source = own_queries.source(module)
    one_key = source.replace(
        "normals = normal_like(global_state.key, global_state.calls, sums)",
        "stream = normal_like(global_state.key, global_state.calls, [tf.zeros([2500])])[0]\n"
        "        normals = [tf.reshape(stream[: tf.size(v)], v.shape) for v in sums]",
    )
    assert one_key != source
    with own_queries.loaded(module, one_key) as modules:
        rounds = own_queries.rounds_of(module, 0, modules)
        assert not distributions.are_equal(distributions.fingerprint(rounds, 1.0), original)
        assert "noise_echo" in tools.replay(rounds)
