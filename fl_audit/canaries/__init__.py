"""Canaries: random vectors that stand for clients, and the coins that include them.

NumPy only: a server that knows nothing of TensorFlow can make the vectors and score aggregates.
"""
