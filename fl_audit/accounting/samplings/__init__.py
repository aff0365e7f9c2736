"""Samplings, one file each: distribution, name in logs, and accounting."""
