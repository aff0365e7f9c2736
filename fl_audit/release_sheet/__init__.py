"""The release sheet: answers for a release board, each field with evidence.

`sheet` defines and renders the fields, on two pages; `from_run` fills them from a verified run;
`sweep_price` computes the privacy cost of the sweep that contains the run; `compare_sheets`
compares a page with its run. `registry_entry` exports the sheet as an entry of a registry;
`documents` writes a section of a model card, and a statement that a pipeline signs.
"""
