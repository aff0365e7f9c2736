"""Mutants of source: what is changed, and that nothing else is."""

import ast

import pytest

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
def test_the_released_queries_have_the_promised_mu_on_tensorflow_and_on_numpy():
    from experiments.mutants import queries

    for subject in (queries.MEAN, queries.ADAPTIVE):
        prints = []
        for on_numpy in (False, True):
            with queries.loaded("", "", on_numpy=on_numpy) as modules:
                rounds = queries.Rounds.of(subject, modules)
                prints.append(queries.fingerprint(rounds, 1.0))
                assert queries.mu(rounds) == pytest.approx(subject.mu, rel=1e-3)
        assert queries.are_equal(*prints)


@pytest.mark.tff
@pytest.mark.slow
def test_a_count_without_noise_is_another_law_and_found_by_replay():
    from experiments.mutants import queries, run

    module = "quantile_estimator_query"
    source = queries.source(module)
    silent = source.replace("stddev=below_estimate_stddev", "stddev=0.0")
    with queries.loaded("", "", on_numpy=True) as modules:
        original = queries.fingerprint(queries.Rounds.of(queries.ADAPTIVE, modules), 1.0)
    with queries.loaded(module, silent, on_numpy=True) as modules:
        rounds = queries.Rounds.of(queries.ADAPTIVE, modules)
        assert not queries.are_equal(queries.fingerprint(rounds, 1.0), original)
        assert queries.mu(rounds) > 100
        assert run.replay(rounds) == ["count_noise"]
