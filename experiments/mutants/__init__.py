"""Mutants of released DP code, and which tools find them."""
