"""The engine on TensorFlow Federated: processes with canaries, and their runtimes."""
