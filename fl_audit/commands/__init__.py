"""The commands of `fl-audit`, one per module: arguments, calls and output.

Large libraries are imported only when a command runs.
"""
