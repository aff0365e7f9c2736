"""The release sheet: what a board asks of a model before it is released, each field with evidence.

`sheet` has the fields and their places, and draws them on two pages; `from_run` fills them from a
finished run, `selection` reads what a sweep around the run cost, `registry` spells the sheet as an
entry of a registry.
"""
