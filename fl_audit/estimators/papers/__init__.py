"""Figures, tables and variants that only a paper needs, and that no audit here runs."""
