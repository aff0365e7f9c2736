"""Engines, which train the rounds of a run. `tff` is the one on TensorFlow Federated."""


class CannotRunError(Exception):
    """A runtime cannot run the process of a run; the text says why."""
