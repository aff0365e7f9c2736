"""The release sheet: what a board asks of a model before it is released, each field with evidence.

`sheet` has the fields and their places, and draws them on two pages; `from_run` fills them from a
verified run, `selection` reads what a sweep around the run cost. `check` holds a page against its
run. `registry` spells the sheet as an entry of a registry; `documents` has the section of a model
card and the statement that a pipeline signs.
"""
