"""The commands of `fl-audit`, a module each, and what they share: parser, printing, statuses.

Large libraries are imported only when a command runs.
"""
