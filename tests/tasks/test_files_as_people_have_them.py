"""Files as Python, pandas, Excel and people write them: the right values, or a line with the place.

What is not as the format says is either refused or said on standard error: nothing is taken in
silence.
"""

import gzip
import io
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.formats.score_file import read_counts_file, read_score_file
from fl_audit.participation.logged_cohorts import read_replay_log
from fl_audit.tasks.client_files import load_npz_task, load_table_task
from fl_audit.tasks.next_word import load_text_task
from fl_audit.tasks.task_kinds import NpzTask, TableTask, TextTask

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@dataclass(frozen=True)
class File:
    """A file of a person.

    Attributes:
      content: Its content.
      said: What is said on standard error, or refused; empty for nothing.
      name: The file's name.
    """

    content: str | bytes
    said: str = ""
    name: str = "file.csv"

    def written(self, folder: Path) -> Path:
        path = folder / self.name
        content = self.content
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


SEPARATED = "columns are read as separated by semicolons or tabs"
POINTS = f"{SEPARATED}, and their decimal commas as points"

SCORES = "canary_id,included,score\n0,0,-1.5\n1,1,1.25\n2,0,0.5\n3,1,3\n"
"""The score file that all files of scores below mean."""


def parquet(columns: dict, **changed) -> File:
    """A Parquet file of columns, some of them in another type."""
    content = io.BytesIO()
    pq.write_table(pa.table({**columns, **changed}), content, compression="zstd")
    return File(content.getvalue(), name="file.parquet")


IDS = {"canary_id": [0, 1, 2, 3], "included": [0, 1, 0, 1], "score": [-1.5, 1.25, 0.5, 3.0]}

RIGHT_SCORES = {
    "plain": File(SCORES),
    "byte order mark": File(SCORES.encode("utf-8-sig")),
    "windows lines": File(SCORES.replace("\n", "\r\n")),
    "old mac lines": File(SCORES.replace("\n", "\r")),
    "no newline at the end": File(SCORES.rstrip()),
    "blank lines": File(SCORES.replace("\n", "\n\n")),
    "quotes": File("".join(f'"{line}"\n' for line in SCORES.replace(",", '","').split())),
    "blanks": File(SCORES.replace(",", ", ")),
    "excel, Germany": File(SCORES.replace(",", ";").replace(".", ","), POINTS),
    "excel, Germany, exponent": File(
        "canary_id;included;score\n0;0;-1,5E+00\n1;1;1,25\n2;0;5,0E-01\n3;1;3\n", POINTS
    ),
    "semicolons": File(SCORES.replace(",", ";"), SEPARATED),
    "tabs": File(SCORES.replace(",", "\t"), SEPARATED),
    "excel, Unicode text": File(SCORES.replace(",", "\t").encode("utf-16"), SEPARATED),
    "floats for booleans": File(SCORES.replace(",0,", ",0.0,").replace(",1,", ",1.0,")),
    "words for booleans": File(SCORES.replace(",0,", ",False,").replace(",1,", ",True,")),
    "excel's booleans": File(SCORES.replace(",0,", ",FALSE,").replace(",1,", ",TRUE,")),
    "pandas' index": File(",canary_id,included,score\n0,0,0,-1.5\n1,1,1,1.25\n2,2,0,.5\n3,3,1,3\n"),
    "an index read again": File(
        "Unnamed: 0,canary_id,included,score\n0,0,0,-1.5\n1,1,1,1.25\n2,2,0,.5\n3,3,1,3\n"
    ),
    "another order": File("score,canary_id,included\n-1.5,0,0\n1.25,1,1\n.5,2,0\n3.0,3,1\n"),
    "a column of notes": File(
        'canary_id,included,score,note\n0,0,-1.5,"a, b"\n1,1,1.25,\n2,0,0.5,x\n3,1,3,x\n'
    ),
    "a comma at the end": File(SCORES.replace("\n", ",\n")),
    "exponents": File("canary_id,included,score\n0,0,-1.5E+00\n1,1,1.25\n2,0,5E-1\n3,1,3e0\n"),
    "R's write.csv": File(
        '"","canary_id","included","score"\n"1",0,FALSE,-1.5\n"2",1,TRUE,1.25\n"3",2,FALSE,0.5\n'
        '"4",3,TRUE,3\n'
    ),
    "R's write.csv2": File(
        '"";"canary_id";"included";"score"\n"1";0;0;-1,5\n"2";1;1;1,25\n"3";2;0;0,5\n"4";3;1;3\n',
        POINTS,
    ),
    "excel, Germany, UTF-8": File(
        ("\ufeff" + SCORES.replace(",", ";").replace(".", ",").replace("\n", "\r\n")), POINTS
    ),
    "empty columns": File(SCORES.replace("\n", ",,\n")),
    "Parquet": parquet(IDS),
    "Parquet, pandas' index": parquet(IDS, __index_level_0__=[5, 6, 7, 8]),
    "Parquet, booleans": parquet(IDS, included=[False, True, False, True]),
    "Parquet, floats for booleans": parquet(IDS, included=[0.0, 1.0, 0.0, 1.0]),
    "Parquet, categories": parquet(
        IDS, canary_id=pa.array(["0", "1", "2", "3"]).dictionary_encode()
    ),
    "Parquet, decimals": parquet(
        IDS, score=pa.array(map(Decimal, ("-1.50", "1.25", "0.50", "3.00")))
    ),
    "Parquet, texts": parquet(IDS, score=["-1.5", "1.25", "0.5", "3"], included=list("0101")),
}

WRONG_SCORES = {
    "no header": File(SCORES.split("\n", 1)[1], "has no header: its first line must name"),
    "nothing": File("", "must start with a header naming canary_id, included, score"),
    "header alone": File("canary_id,included,score\n", "must hold at least one row"),
    "another capital": File(SCORES.replace("score", "Score"), "did you mean 'Score'?"),
    "NaN": File(SCORES.replace("0.5", "nan"), "line 4: score must be a finite number, got nan"),
    "empty": File(SCORES.replace("0.5", ""), "line 4: score must be a finite number, got ''"),
    "missing in R": File(SCORES.replace("0.5", "NA"), "line 4: score must be a finite number, got"),
    "dots of thousands": File(
        SCORES.replace(",", ";").replace("1.25", "1.000,25"), "line 3: score must be a finite"
    ),
    "commas and points": File(
        SCORES.replace(",", ";").replace("1.25", "1,25"),
        "line 2: has a number with a point, and line 3 one with a comma",
    ),
    "a decimal comma": File(SCORES.replace("1.25", "1,25"), "line 3: must have 3 fields, got 4"),
    "a workbook": File(b"PK\x03\x04\x14\0", "is a workbook or another archive, not text"),
    "Parquet": File(b"PAR1\x15\x04", "is Parquet, not text; save it as CSV (scores and tables: or"),
    "a hole in Parquet": replace(
        parquet(IDS, score=[-1.5, None, 0.5, 3.0]), said="row 2: score must be a finite number"
    ),
    "no Parquet": File(SCORES, "is no Parquet file, or a damaged one", "file.parquet"),
    "gzip": File(gzip.compress(SCORES.encode()), "is compressed, not text; unpack it"),
    "windows letters": File(SCORES.encode() + b"\xe9,1,2\n", "must be UTF-8 text (in Excel: CSV"),
    "a short row": File(SCORES + "4,1\n", "line 6: must have 3 fields, got 2"),
    "an open quote": File(SCORES + '"4,1,2\n', "line 6: is not CSV: a double quote is opened and"),
    "the same twice": File(SCORES + "3,1,2\n", "line 6: canary_id must be unique, got '3' again"),
    "yes and no": File(SCORES + "4,yes,2\n", "line 6: included must be 0 or 1, got 'yes'"),
    "excel's separator": File("sep=;\n" + SCORES.replace(",", ";"), "line 1: is 'sep=;', as Excel"),
    "excel's empty rows": File(SCORES + ",,\n,,\n", "line 6: canary_id must not be empty"),
    "excel's error": File(SCORES.replace("0.5", "#DIV/0!"), "line 4: score must be a finite"),
    "R's write.table": File(
        '"canary_id" "included" "score"\n"1" 0 0 -1.5\n',
        "line 1: must name the columns, with commas",
    ),
    "a title": File("Table 1\n" + SCORES, "has no column 'canary_id': known: Table 1"),
    "thousands": File(SCORES.replace("3,1,3", '3,1,"3,000"'), "line 5: score must be a finite"),
    "percent": File(
        SCORES.replace("0.5", "50%"), "line 4: score must be a finite number, got '50%'"
    ),
    "a typeset minus": File(SCORES.replace("-", "\u2212"), "line 2: score must be a finite number"),
    "JSON": File('{"canary_id":0,"included":0}\n', "line 1: must name the columns, with commas"),
    "a sum at the end": File(SCORES + "Total,,3.25\n", "line 6: included must be 0 or 1, got ''"),
}


@pytest.mark.parametrize("name", RIGHT_SCORES)
def test_scores_are_read_as_they_are_meant(name, tmp_path, capsys):
    file = RIGHT_SCORES[name]
    read = read_score_file(file.written(tmp_path))
    assert read.canary_id == ("0", "1", "2", "3")
    assert read.included.tolist() == [False, True, False, True]
    assert read.score.tolist() == [-1.5, 1.25, 0.5, 3.0]
    said = capsys.readouterr().err
    assert said == (f"{tmp_path / file.name}: {file.said}\n" if file.said else "")


def refused(file: File, folder: Path, read) -> None:
    """Asserts that a file is refused in one line that names it, and says what is wrong."""
    path = file.written(folder)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert file.said in str(caught.value)


@pytest.mark.parametrize("name", WRONG_SCORES)
def test_scores_that_cannot_be_read_name_the_place(name, tmp_path):
    refused(WRONG_SCORES[name], tmp_path, read_score_file)


TABLE = "client_id,label,a,b\n" + "".join(
    f"c{row % 4},{row % 2},{row}.5,{row % 3}\n" for row in range(40)
)
"""The table that all tables below mean: 40 rows of four clients, two features, two classes."""


def indexed(lines: str, name: str) -> str:
    header, *rows = lines.splitlines()
    return "\n".join([f"{name},{header}", *(f"{n},{row}" for n, row in enumerate(rows))]) + "\n"


def changed(row: int, column: int, value: str) -> str:
    """The table with one cell changed; rows and columns count from 1."""
    lines = TABLE.splitlines()
    cells = lines[row].split(",")
    cells[column - 1] = value
    lines[row] = ",".join(cells)
    return "\n".join(lines) + "\n"


def labelled(*labels: str) -> str:
    header, *rows = TABLE.splitlines()
    cells = [row.split(",") for row in rows]
    named = [f"{c},{labels[int(label)]},{a},{b}" for c, label, a, b in cells]
    return "\n".join([header, *named]) + "\n"


COLUMNS = {
    "client_id": [f"c{row % 4}" for row in range(40)],
    "label": [row % 2 for row in range(40)],
    "a": [row + 0.5 for row in range(40)],
    "b": [row % 3 for row in range(40)],
}

BROKEN = TABLE.replace("a,b", '"dose\n(mg)","b\n\n(kg)"')

LEFT_OUT = "is the rows' index and no feature; it is left out"
RIGHT_TABLES = {
    "plain": File(TABLE),
    "byte order mark": File(TABLE.encode("utf-8-sig")),
    "windows lines": File(TABLE.replace("\n", "\r\n")),
    "blanks": File(TABLE.replace(",", " , ")),
    "excel, Germany": File(TABLE.replace(",", ";").replace(".", ","), POINTS),
    "tabs": File(TABLE.replace(",", "\t"), SEPARATED),
    "excel, Unicode text": File(TABLE.replace(",", "\t").encode("utf-16"), SEPARATED),
    "pandas' index": File(indexed(TABLE, ""), f"column '' {LEFT_OUT}"),
    "an index read again": File(indexed(TABLE, "Unnamed: 0"), f"column 'Unnamed: 0' {LEFT_OUT}"),
    "reset_index": File(indexed(TABLE, "index"), f"column 'index' {LEFT_OUT}"),
    "labels with gaps": File(labelled("7", "500"), "its 2 distinct labels, from 7 to 500, are"),
    "labels from 1": File(labelled("1", "2"), "its 2 distinct labels, from 1 to 2, are taken as"),
    "labels as floats": File(labelled("0.0", "1.0")),
    "labels as booleans": File(labelled("False", "True")),
    "quoted numbers": File(labelled('"0"', '"1"')),
    "a line break in a name": File(BROKEN),
    "broken windows lines": File(BROKEN.replace("\n", "\r\n")),
    "broken semicolons": File(BROKEN.replace(",", ";"), SEPARATED),
    "Parquet": parquet(COLUMNS),
    "Parquet, categories": parquet(
        COLUMNS, client_id=pa.array(COLUMNS["client_id"]).dictionary_encode()
    ),
    "Parquet, decimals": parquet(COLUMNS, a=pa.array(Decimal(f"{row}.50") for row in range(40))),
    "Parquet, texts": parquet(COLUMNS, a=list(map(str, COLUMNS["a"]))),
}

WRONG_TABLES = {
    "NaN": File(changed(7, 3, "nan"), "row 7, column `a`: must be a finite number in float32"),
    "an empty cell": File(changed(7, 3, ""), "row 7, column `a`: must be a finite number"),
    "infinity": File(changed(8, 4, "inf"), "row 8, column `b`: must be a finite number"),
    "too large": File(
        changed(8, 3, "1e300"), "row 8, column `a`: must be a finite number in float"
    ),
    "a text": File(changed(9, 4, "high"), "row 9: column `b` must be a number, got high"),
    "a label in words": File(labelled("cat", "dog"), "row 1: column `label` must be a number"),
    "half a class": File(
        changed(5, 2, "0.5"), "row 5: labels must be whole numbers from 0 on, got"
    ),
    "no class": File(changed(5, 2, "-1"), "row 5: labels must be whole numbers from 0 on, got -1"),
    "no client": File(changed(6, 1, ""), "row 6: column `client_id` is empty"),
    "a blank for a client": File(changed(6, 1, " "), "row 6: column `client_id` is empty"),
    "no category": replace(
        parquet(COLUMNS, client_id=pa.array(["c", None] * 20).dictionary_encode()),
        said="row 2: column `client_id` is empty",
    ),
    "no category of a feature": replace(
        parquet(COLUMNS, a=pa.array(["1", None] * 20).dictionary_encode()),
        said="row 2: column `a` must be a number",
    ),
    "no boolean": File(
        re.sub(r",\d\n", ",True\n", TABLE) + "c1,0,1.5,\n",
        "row 41, column `b`: must be a finite number in float32, got nan",
    ),
    "nanoseconds": replace(
        parquet(COLUMNS, a=pa.array(range(40), pa.timestamp("ns"))),
        said="row 1: column `a` must be a number, got 1970-01-01 00:00:00.0",
    ),
    "a duration": replace(
        parquet(COLUMNS, a=pa.array([86_400 * 10**9] * 40, pa.duration("ns"))),
        said="row 1: column `a` must be a number, got 86400000000000 nanoseconds",
    ),
    "an empty duration": replace(
        parquet(COLUMNS, a=pa.array([None] * 40, pa.duration("us"))),
        said="row 1: column `a` must be a number, got ",
    ),
    "fractions of a second": File(
        re.sub(r",\d+\.", ",2024-01-05 10:00:00.", TABLE), "row 1: column `a` must be a number"
    ),
    "a short row": File(TABLE + "c1,0,1\n", "row 41 below the header: must have 4 fields"),
    "a short row below a broken name": File(
        BROKEN + "c1,0,1\n", "row 41 below the header: must have 4 fields"
    ),
    "one name twice": File(TABLE.replace("a,b", "a,a"), "must have columns of distinct names"),
    "no header": File(
        "0,1,2.5,3\n1,0,2,1\n", "has no header: its first line must name the columns"
    ),
    "another name": File(TABLE.replace("label", "Label"), "did you mean 'Label'?"),
    "features alone": File("client_id,label\nc,0\nd,1\n", "has no column of features beside"),
    "a workbook": File(b"PK\x03\x04\x14\0", "is a workbook or another archive, not text"),
    "a date": File(
        changed(1, 3, "2024-01-05"), "row 1: column `a` must be a number, got 2024-01-05"
    ),
    "thousands": File(
        changed(2, 3, '"1,250.5"'), "row 2: column `a` must be a number, got 1,250.5"
    ),
    "missing in R": File(changed(7, 3, "NA"), "row 7, column `a`: must be a finite number"),
    "excel's empty rows": File(TABLE + ",,,\n", "row 41: column `client_id` is empty"),
}


def table(path: Path):
    return load_table_task(TableTask(path=str(path)), 1)


@pytest.mark.parametrize("name", RIGHT_TABLES)
def test_tables_are_read_as_they_are_meant(name, tmp_path, capsys):
    file = RIGHT_TABLES[name]
    task = table(file.written(tmp_path))
    made = [task.population.take(c, np.arange(task.population.num_examples(c))) for c in range(4)]
    examples = [*made, task.held_out]
    assert task.population.client_ids == ["c0", "c1", "c2", "c3"]
    assert sum(map(len, examples)) == 40
    assert {e.inputs.shape[1] for e in examples} == {2}
    assert sum(e.inputs[:, 0].sum() for e in examples) == sum(range(40)) + 20
    assert sum(e.labels.sum() for e in examples) == 20
    said = capsys.readouterr().err
    assert file.said in said and said.count("\n") == bool(file.said)


@pytest.mark.parametrize("name", WRONG_TABLES)
def test_tables_that_cannot_be_read_name_the_place(name, tmp_path):
    refused(WRONG_TABLES[name], tmp_path, table)


@pytest.mark.parametrize("clients", [["007", "7", "07", "8"], [str(10**19 + n) for n in range(4)]])
def test_clients_in_digits_are_no_numbers(clients, tmp_path):
    header, *rows = TABLE.splitlines()
    named = [f"{clients[n % 4]}{row.removeprefix(f'c{n % 4}')}" for n, row in enumerate(rows)]
    task = table(File("\n".join([header, *named]) + "\n").written(tmp_path))
    assert task.population.client_ids == clients


@pytest.mark.parametrize("mark", [".", ","])
def test_decimal_commas_are_none_in_names_of_clients(mark, tmp_path):
    clients = [f"{client}{mark}5" for client in range(4)]
    header, *rows = TABLE.replace(",", ";").replace(".", ",").splitlines()
    named = [f"{clients[n % 4]}{row.removeprefix(f'c{n % 4}')}" for n, row in enumerate(rows)]
    task = table(File("\n".join([header, *named]) + "\n").written(tmp_path))
    assert task.population.client_ids == clients


TEXT = "client_id,text\n" + "".join(f"c{row % 3},word{row % 5} and more\n" for row in range(30))
VOCABULARY = "the vocabulary has only the 7 words of the training rows"

RIGHT_TEXTS = {
    "plain": File(TEXT),
    "byte order mark": File(TEXT.encode("utf-8-sig")),
    "windows lines": File(TEXT.replace("\n", "\r\n")),
    "no newline at the end": File(TEXT.rstrip()),
    "blanks": File(TEXT.replace(",", " , ")),
    "quotes": File("".join(f'"{line}"\n' for line in TEXT.replace(",", '","').splitlines())),
    "another order": File(
        "text,year,client_id\n" + re.sub(r"(c\d),(.*)", r"\2,1600,\1", TEXT.split("\n", 1)[1])
    ),
    "semicolons": File(TEXT.replace(",", ";"), SEPARATED),
    "gzip": File(gzip.compress(TEXT.encode()), name="file.csv.gz"),
}

WRONG_TEXTS = {
    "a comma in a text": File(TEXT + "c1,well, no\n", "line 32: must have 2 fields, got 3; put a"),
    "windows letters": File(TEXT.encode() + b"c1,caf\xe9\n", "must be UTF-8 text (in Excel: CSV"),
    "an open quote": File(TEXT + 'c1,"to be\n', "a double quote is opened and never closed"),
    "half of a gzip": File(
        gzip.compress(TEXT.encode())[:-9], "must be a file compressed by gzip", "file.csv.gz"
    ),
    "no gzip": File(TEXT, "must be a file compressed by gzip", "file.csv.gz"),
    "another name": File(TEXT.replace("text", "sentence"), "has no column 'text'"),
}


def text(path: Path):
    return load_text_task(TextTask(path=str(path), embedding_size=2, lstm_size=2), 1)


@pytest.mark.parametrize("name", RIGHT_TEXTS)
def test_texts_are_read_and_their_vocabulary_has_no_more_words(name, tmp_path, capsys):
    file = RIGHT_TEXTS[name]
    task = text(file.written(tmp_path))
    assert task.population.client_ids == ["c0", "c1", "c2"]
    assert task.classifier.initial_weights[0].shape == (7 + 4, 2)
    kept = [row for row in range(0, 30, 3) if row != 9]  # every tenth row is held out
    assert task.population.examples(0).inputs[:, 1].tolist() == [3 + row % 5 for row in kept]
    said = capsys.readouterr().err
    assert VOCABULARY in said and file.said in said
    assert said.count("\n") == 1 + bool(file.said)


@pytest.mark.parametrize("name", WRONG_TEXTS)
def test_texts_that_cannot_be_read_name_the_place(name, tmp_path):
    refused(WRONG_TEXTS[name], tmp_path, text)


COUNTS = "fp,n0,fn,n1\n3,100,5,100\n4,100,6,100\n"


@pytest.mark.parametrize(
    "content",
    [COUNTS, COUNTS.replace("3", "3.0"), COUNTS.replace(",", ";"), "\ufeff" + COUNTS],
    ids=["plain", "floats", "semicolons", "byte order mark"],
)
def test_counts_are_read_as_they_are_meant(content, tmp_path):
    counts = read_counts_file(File(content).written(tmp_path))
    assert (counts.fp.tolist(), counts.n1.tolist()) == ([3, 4], [100, 100])


ROUNDS = "round,client_id\n1,ada\n1,bob\n2,ada\n"


@pytest.mark.parametrize(
    "content",
    [
        ROUNDS,
        ROUNDS.replace(",", ";"),
        "\ufeff" + ROUNDS,
        ROUNDS.replace("\n", "\r\n"),
        ROUNDS.replace(",", ", "),
    ],
    ids=["plain", "semicolons", "byte order mark", "windows lines", "blanks"],
)
def test_logs_of_rounds_are_read_as_they_are_meant(content, tmp_path):
    log = read_replay_log(File(content).written(tmp_path), ["ada", "bob"])
    assert log.num_rounds == 2
    assert log.clients.tolist() == [0, 1, 0]


def test_arrays_name_the_row(tmp_path):
    inputs = np.ones((4, 3))
    inputs[2, 1] = np.nan
    np.savez(tmp_path / "ada.npz", inputs=inputs, labels=np.array([0.0, 1, 0, 1]))
    with pytest.raises(InputError, match=r"ada\.npz, row 3, inputs: must be a finite number in fl"):
        load_npz_task(NpzTask(path=str(tmp_path)), 1)
