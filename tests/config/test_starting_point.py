"""What `init` writes beside what else the project runs."""

from importlib import resources
from pathlib import Path

from fl_audit.config.file import load_config
from fl_audit.config.starting_point import starting_config


def test_the_tutorials_run_is_that_of_the_quickstart(tmp_path):
    written = tmp_path / "config.toml"
    written.write_text(starting_config("digits"), encoding="utf-8")
    quickstart = Path(str(resources.files("fl_audit.pipeline") / "quickstart.toml"))
    noise = ["mechanism.noise_multiplier=0.3"]
    assert load_config(written, noise) == load_config(quickstart, noise)
