"""Clients' work on Ray's actors, for any engine (`tff_on_ray`, `jax_on_ray`)."""
