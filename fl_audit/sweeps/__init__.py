"""Sweeps: many runs of one base config, side by side on Ray, each in a run folder of its own."""

from fl_audit.sweeps.sweep import RunState, SweepRun, plan_sweep, read_grid, run_sweep, sweep_json

__all__ = ["RunState", "SweepRun", "plan_sweep", "read_grid", "run_sweep", "sweep_json"]
