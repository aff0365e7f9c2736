"""The runtime `ray`: client work on Ray's actors, and Ray's processes on this machine."""
