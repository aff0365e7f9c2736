"""One module per command of `fl-audit`: its arguments, and what it calls and prints.

Nothing heavy is imported until a command runs.
"""
