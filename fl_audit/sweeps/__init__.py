r"""Sweeps: many runs of one base config, in parallel on Ray, each in its own run folder.

>>> import tempfile
>>> from pathlib import Path
>>> import fl_audit
>>> base = Path(fl_audit.__file__).parent / "pipeline" / "quickstart.toml"
>>> folder = Path(tempfile.mkdtemp())
>>> grid = folder / "sweep.toml"
>>> _ = grid.write_text(f"base = '{base}'\ngrid.'mechanism.noise_multiplier' = [0.3, 1.0]\n")
>>> [(run.name, run.state) for run in plan_sweep(grid, folder / "out")]
[('noise_multiplier_0.3', 'planned'), ('noise_multiplier_1', 'planned')]

`run_sweep(grid, folder / "out", jobs=4)` then trains those that are not finished.
"""

from fl_audit.sweeps.sweep import RunState, SweepRun, plan_sweep, read_grid, run_sweep, sweep_json

__all__ = ["RunState", "SweepRun", "plan_sweep", "read_grid", "run_sweep", "sweep_json"]
