"""Clients' work on Ray's actors, for any engine (`on_ray` of `tff` and of `jax`)."""
