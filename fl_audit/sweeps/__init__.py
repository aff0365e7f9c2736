"""Sweeps: many runs of one base config, side by side on Ray, each in a run folder of its own."""

from fl_audit.sweeps.grid import SweepRun, read_grid
from fl_audit.sweeps.states import RunState, sweep_json
from fl_audit.sweeps.sweep import plan_sweep, run_sweep

__all__ = ["RunState", "SweepRun", "plan_sweep", "read_grid", "run_sweep", "sweep_json"]
