"""Canaries: random vectors that represent clients, and the coins that include them.

Nothing here imports TensorFlow, so a server without it can generate the vectors and score
aggregates. The family `hadamard` scores with TensorFlow if the process has imported it.
"""
