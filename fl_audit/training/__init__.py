"""Training: the TFF process with canaries, the runtimes that run it, the round loop."""
