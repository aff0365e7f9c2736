"""The release sheet: answers for a release board, each field with evidence.

`sheet` defines and renders the fields, on two pages; `from_run` fills them from a verified run;
`selection` reads the cost of the sweep that contains the run; `compare_sheets` compares a page with
its run. `registry_entry` exports the sheet as an entry of a registry, `documents` as a section of a
model card and as a statement that a pipeline signs.
"""
