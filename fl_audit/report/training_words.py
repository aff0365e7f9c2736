"""Sentences on what clients and the server do in a round."""

from fl_audit.config import (
    Client,
    FedProx,
    FedSgd,
    Server,
    ServerAdagrad,
    ServerAdam,
    ServerSgd,
    ServerYogi,
)
from fl_audit.number_words import count

_NAMES = {"sgd": "SGD", "adagrad": "Adagrad", "adam": "Adam", "yogi": "Yogi"}


def client_training(client: Client) -> str:
    """A sentence on what a client does in a round."""
    if isinstance(client, FedSgd):
        return (
            "A client sends the gradient of its loss at the round’s model, mean over its examples "
            "(FedSGD)."
        )
    momentum = f" and momentum {client.momentum:g}" if client.momentum else ""
    steps = (
        f"A client runs {count(client.epochs, 'epoch')} of {_NAMES[client.optimizer]} with "
        f"learning rate {client.learning_rate:g}{momentum} on batches of {client.batch_size}"
    )
    if isinstance(client, FedProx):
        strength = f"{client.proximal_strength:g}"
        return f"{steps}, pulled back to the round’s model with strength {strength} (FedProx)."
    return f"{steps}."


def server_step(server: Server) -> str:
    """A sentence on how the server applies an aggregate."""
    if isinstance(server, ServerSgd):
        momentum = f" and momentum {server.momentum:g}" if server.momentum else ""
        how = f"SGD with learning rate {server.learning_rate:g}{momentum}"
    else:
        how = _adaptive(server)
    return f"The server applies a round’s aggregate by {how}."


def _adaptive(server: ServerAdagrad | ServerAdam | ServerYogi) -> str:
    name = _NAMES[str(server.__struct_config__.tag)]
    betas = ""
    if not isinstance(server, ServerAdagrad):
        betas = f", β₁ {server.beta_1:g}, β₂ {server.beta_2:g}"
    return f"{name} with learning rate {server.learning_rate:g}{betas} and τ {server.tau:g}"
