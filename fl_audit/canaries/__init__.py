"""Canaries: random vectors that represent clients, and the coins that include them.

Nothing here imports TensorFlow, so that a server without it can generate the vectors and score
aggregates; in a process that has imported it, scoring with `hadamard` uses it.
"""
