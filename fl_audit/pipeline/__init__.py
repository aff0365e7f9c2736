"""An audited run from start to end: check, train with canaries, score, estimate, report.

TensorFlow or JAX trains the model, so this takes minutes::

    from fl_audit import load_config, start_run

    report = start_run(load_config(Path("config.toml")), Path("out"))
"""

from fl_audit.pipeline.runs import continue_run, start_run

__all__ = ["continue_run", "start_run"]
