"""Sweeps: many runs of one base config, in parallel on Ray, each in its own run folder.

from fl_audit.sweeps import plan_sweep, run_sweep

for state in plan_sweep(Path("sweep.toml"), Path("sweep")):
    print(state.name, state.state)
run_sweep(Path("sweep.toml"), Path("sweep"), jobs=4)
"""

from fl_audit.sweeps.sweep import RunState, SweepRun, plan_sweep, read_grid, run_sweep, sweep_json

__all__ = ["RunState", "SweepRun", "plan_sweep", "read_grid", "run_sweep", "sweep_json"]
