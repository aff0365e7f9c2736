"""The runtimes of the process: this Python process, blocks of clients in it, TFF's C++ worker."""
