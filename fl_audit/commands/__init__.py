"""The commands of `fl-audit`, one per module: its arguments, and what it calls and prints.

Large libraries are imported only when a command runs.
"""
