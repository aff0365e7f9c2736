"""Engines, which train the rounds of a run. `tff` is the one on TensorFlow Federated."""
