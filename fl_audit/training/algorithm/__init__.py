"""The TFF learning process of a run: client work, canaries, aggregator, optimizers."""
