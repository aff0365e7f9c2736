"""Canaries: random vectors that stand for clients, and the coins that include them.

The vectors need NumPy alone, so that a server that knows nothing of TensorFlow can make them and
score aggregates; only scoring with `hadamard` takes TensorFlow.
"""
