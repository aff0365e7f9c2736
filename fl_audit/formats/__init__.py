"""Formats on disk: run folders, log folders, scores, counts, rows by round, atomic writes."""
