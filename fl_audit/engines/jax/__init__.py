"""The engine in JAX: clients, aggregation and the server, with or without TensorFlow installed."""
