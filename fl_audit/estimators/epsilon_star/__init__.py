"""Epsilon* of one trained model, from its losses (Negoescu et al. 2024, arXiv:2307.11280)."""
