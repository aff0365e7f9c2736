"""Mutants of source: what is changed, and that nothing else is."""

import ast

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
