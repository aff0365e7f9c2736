"""The functions of models in JAX."""
