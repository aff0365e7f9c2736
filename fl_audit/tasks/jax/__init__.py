"""Functions of models in JAX."""
