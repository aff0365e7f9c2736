"""Membership inference: scores and error counts from what models say of points, arrays alone.

A model's output for a point is its loss or its margin (`outputs`); shadow models, whose training
points are known, say what outputs to expect (`shadow_outputs`). Attacks turn outputs into scores,
larger for likelier members (`lira`), or into counts of errors (`measure_mia`); the games
say which points each model is trained on (`games`), and `select_worst` at which points attacks do
best. Training the models is not done here (`fl_audit.engines.tff.shadow_models`).
"""
