"""Canaries: random vectors that stand for clients, and the coins that include them.

Nothing here imports TensorFlow, so that a server without it can make the vectors and score
aggregates; where a process has imported it, scoring with `hadamard` uses it.
"""
