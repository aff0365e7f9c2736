"""The engine on TensorFlow Federated: its processes with canaries, and the runtimes they run on."""
