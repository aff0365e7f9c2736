"""What clients and the server did, in sentences."""

import pytest

from fl_audit.config import (
    FedAvg,
    FedProx,
    FedSgd,
    ServerAdagrad,
    ServerAdam,
    ServerSgd,
    ServerYogi,
)
from fl_audit.report.words import client_training, server_step


@pytest.mark.parametrize(
    ("client", "sentence"),
    [
        (
            FedAvg(learning_rate=0.05, batch_size=8),
            "A client runs 1 epoch of SGD with learning rate 0.05 on batches of 8.",
        ),
        (
            FedAvg(momentum=0.9, epochs=3),
            "A client runs 3 epochs of SGD with learning rate 0.1 and momentum 0.9 on batches of "
            "16.",
        ),
        (
            FedProx(optimizer="adam", learning_rate=0.001, proximal_strength=0.5),
            "A client runs 1 epoch of Adam with learning rate 0.001 on batches of 16, pulled back "
            "to the round’s model with strength 0.5 (FedProx).",
        ),
        (
            FedSgd(),
            "A client sends the gradient of its loss at the round’s model, mean over its examples "
            "(FedSGD).",
        ),
    ],
)
def test_sentences_on_clients(client, sentence):
    assert client_training(client) == sentence


@pytest.mark.parametrize(
    ("server", "how"),
    [
        (ServerSgd(), "SGD with learning rate 1"),
        (
            ServerSgd(learning_rate=0.5, momentum=0.9),
            "SGD with learning rate 0.5 and momentum 0.9",
        ),
        (ServerAdagrad(), "Adagrad with learning rate 0.01 and τ 0.001"),
        (
            ServerAdam(learning_rate=0.1),
            "Adam with learning rate 0.1, β₁ 0.9, β₂ 0.99 and τ 0.001",
        ),
        (
            ServerYogi(beta_1=0, tau=0.01),
            "Yogi with learning rate 0.01, β₁ 0, β₂ 0.99 and τ 0.01",
        ),
    ],
)
def test_sentences_on_servers(server, how):
    assert server_step(server) == f"The server applies a round’s aggregate by {how}."
