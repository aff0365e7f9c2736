"""The BUILD file names every module, so that nothing is left out of a Bazel build."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_module_is_in_a_target():
    build = (ROOT / "BUILD").read_text()
    named = set(re.findall(r'"(fl_audit/[\w/]+\.py)"', build))
    for pattern in re.findall(r'glob\(\["(fl_audit/[\w/*]+\.py)"\]\)', build):
        named |= {str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "fl_audit").rglob("*.py")}
    assert modules == named


def test_rooms_import_only_what_the_targets_say():
    def imports(room):
        for path in (ROOT / "fl_audit" / room).rglob("*.py"):
            yield from re.findall(r"^\s*from fl_audit\.(\w+)", path.read_text(), re.M)

    foundation = {"config", "config_file", "csv_file", "errors", "files", "run_folder", "seeds"}
    foundation |= {"mapped_log"}
    assert set(imports("estimators")) <= {"estimators", "errors"}
    assert set(imports("canaries")) <= {"canaries"} | foundation
    assert set(imports("mechanism_checks")) <= {"mechanism_checks"} | foundation
    assert set(imports("participation")) <= {"participation"} | foundation
    assert set(imports("tasks")) <= {"tasks"} | foundation
    assert not {"estimators", "report"} & set(imports("training"))
    assert not {"training", "tasks"} & set(imports("report"))
    assert not {"training", "tasks", "report"} & set(imports("scoring"))
