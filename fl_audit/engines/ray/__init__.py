"""Clients' work on Ray's actors, whatever engine trains them (`on_ray` of `tff` and of `jax`)."""
