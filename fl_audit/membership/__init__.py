"""Membership inference: scores and error counts from the outputs of models, as arrays.

>>> import numpy as np
>>> from fl_audit.membership.lira import ShadowOutputs, online_lira
>>> margins = np.array([[0.0], [2.0], [4.0], [6.0]])  # of one point under four shadow models
>>> shadow = ShadowOutputs(margins, [[False], [False], [True], [True]])
>>> online_lira([[3.0], [5.0]], shadow).ravel().round(9).tolist()  # of two attacked models
[0.0, 4.0]

A model's output for a point is the point's loss or margin (`outputs`). Shadow models with known
training points show which outputs to expect (`ShadowOutputs`). Attacks turn outputs into scores,
larger for likelier members (`lira`, `population`), or into counts of errors (`measure_mia`).
`games` draws the training points of each model, and `lira.select_worst` finds the points that are
easiest to attack. The models are trained elsewhere (`fl_audit.engines.tff.shadow_models`).
"""
