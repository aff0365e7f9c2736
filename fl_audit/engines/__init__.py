"""Engines, which train the rounds of a run: `tff` on TensorFlow Federated, `jax` on JAX."""


class CannotRunError(Exception):
    """A runtime cannot run the process of a run; the text says why."""
