"""What the runs of a sweep read alike is made once, whoever comes first, and is the same."""

import subprocess
import sys

import numpy as np
import pytest

from fl_audit.config import TextTask
from fl_audit.errors import InputError
from fl_audit.tasks import load_task, text
from fl_audit.tasks.text import Sentence, collect, corpus_of_arrays, made_once, sharing_parts


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.csv"
    path.write_text("abc")
    return path


def _counted():
    """A maker, and how often it was asked."""
    calls = []

    def make():
        calls.append(None)
        return {"numbers": np.arange(3)}

    return make, calls


def test_it_is_made_once_for_a_content_and_its_settings(source, tmp_path):
    make, calls = _counted()
    with sharing_parts(tmp_path / "shared"):
        first = made_once("text", source, "20", make)
        again = made_once("text", source.rename(tmp_path / "moved.csv"), "20", make)
        assert len(calls) == 1
        np.testing.assert_array_equal(first["numbers"], again["numbers"])
        made_once("text", tmp_path / "moved.csv", "21", make)
        (tmp_path / "moved.csv").write_text("abd")
        made_once("text", tmp_path / "moved.csv", "20", make)
        assert len(calls) == 3
    made_once("text", tmp_path / "moved.csv", "20", make)  # outside a sweep
    assert len(calls) == 4


def test_what_cannot_be_made_leaves_nothing(source, tmp_path):
    def refuse():
        raise InputError("no")

    with sharing_parts(tmp_path / "shared"), pytest.raises(InputError, match=r"^no$"):
        made_once("text", source, "", refuse)
    assert not list((tmp_path / "shared").glob("*.npz"))


_RUN = """
import sys, time
from pathlib import Path
import numpy as np
from fl_audit.tasks.text import made_once, sharing_parts
def make():
    Path(sys.argv[2], f"made_{time.monotonic_ns()}").touch()
    time.sleep(0.5)
    return {"numbers": np.arange(3)}
with sharing_parts(Path(sys.argv[2]) / "shared"):
    print(made_once("text", Path(sys.argv[1]), "", make)["numbers"].sum())
"""


def test_of_several_that_start_at_one_moment_one_makes_it(source, tmp_path):
    words = [sys.executable, "-c", _RUN, str(source), str(tmp_path)]
    runs = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [run.communicate()[0] for run in runs] == ["3\n"] * 3
    assert len(list(tmp_path.glob("made_*"))) == 1


def test_a_corpus_is_the_same_from_its_arrays():
    said = [("é\n", "ä b c d"), ("x", "d e"), *(("x", f"f w{n}") for n in range(20))]
    corpus = collect((Sentence(who, words.split()) for who, words in said), length=3)
    again = corpus_of_arrays(corpus.arrays())
    assert again.client_ids == ["é\n", "x"]
    assert again.word_counts == corpus.word_counts
    assert corpus.word_counts["d"] == 2  # one of them behind what is kept
    assert "w7" not in corpus.word_counts  # of the tenth sentence, which is held out
    for name, array in corpus.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])


def test_a_text_that_is_shared_makes_the_same_task(tmp_path, monkeypatch):
    path = tmp_path / "speech.csv"
    rows = (f"{'ba'[n % 2]},word w{n} and w{n // 3}" for n in range(60))
    path.write_text("\n".join(["client_id,text", *rows]) + "\n")
    config = TextTask(path=str(path), vocabulary_size=9, embedding_size=2, lstm_size=2)
    alone = load_task(config, 1)
    with sharing_parts(tmp_path / "shared"):
        load_task(config, 2)
        monkeypatch.setattr(text, "read_sentences", lambda path: pytest.fail("read again"))
        shared = load_task(config, 1)
    assert shared.population.client_ids == alone.population.client_ids
    np.testing.assert_array_equal(shared.population.rows, alone.population.rows)
    np.testing.assert_array_equal(shared.held_out.labels, alone.held_out.labels)
