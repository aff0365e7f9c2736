"""Many models of one task at once, each trained centrally on its own part of the data.

These are the shadow models and challenges of membership attacks (`fl_audit.membership`); federated
training with canaries is `fl_audit.training.algorithm`.
"""
