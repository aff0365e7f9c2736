"""The runtime `ray`: the clients' work of a TFF process on Ray's actors."""
