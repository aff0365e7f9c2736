"""The client and server tables: every kind with its keys, and mistakes in them."""

import tomllib

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
from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.errors import InputError
from tests.small_configs import SMALLEST


def _parse(client="", server=""):
    return parse_config(
        tomllib.loads(f"[client]\n{client}\n[server]\n{server}\n{SMALLEST}"), "a.toml"
    )


@pytest.mark.parametrize(
    ("text", "client"),
    [
        ("", FedAvg()),
        ("learning_rate = 0.3", FedAvg(learning_rate=0.3)),
        ('kind = "fed_avg"\noptimizer = "adam"', FedAvg(optimizer="adam")),
        ("momentum = 0.9", FedAvg(momentum=0.9)),
        (
            'kind = "fed_prox"\nproximal_strength = 0.1\noptimizer = "yogi"\nepochs = 2',
            FedProx(proximal_strength=0.1, optimizer="yogi", epochs=2),
        ),
        ('kind = "fed_sgd"\nbatch_size = 3', FedSgd(batch_size=3)),
    ],
)
def test_clients(text, client):
    config = _parse(client=text)
    assert config.client == client
    assert parse_config(tomllib.loads(config_to_toml(config)), "again") == config


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("", ServerSgd(learning_rate=1.0, momentum=0.0)),
        ('kind = "sgd"\nmomentum = 0.5', ServerSgd(momentum=0.5)),
        ('kind = "adagrad"\ntau = 0.1', ServerAdagrad(tau=0.1)),
        (
            'kind = "adam"\nbeta_2 = 0.9\nlearning_rate = 0.3',
            ServerAdam(beta_2=0.9, learning_rate=0.3),
        ),
        ('kind = "yogi"\nbeta_1 = 0', ServerYogi(beta_1=0.0)),
    ],
)
def test_servers(text, server):
    config = _parse(server=text)
    assert config.server == server
    assert parse_config(tomllib.loads(config_to_toml(config)), "again") == config


def test_a_fed_sgd_client_goes_once_through_its_examples():
    assert FedSgd().epochs == 1


@pytest.mark.parametrize(
    ("tables", "mistake"),
    [
        ({"client": 'kind = "fed_prox"'}, "key `client.proximal_strength` is missing"),
        (
            {"client": 'kind = "fed_prox"\nproximal_strength = 0'},
            "key `client.proximal_strength`: Expected `float` > 0",
        ),
        ({"client": "proximal_strength = 0.1"}, "unknown key `client.proximal_strength`"),
        ({"client": 'kind = "fed_sgd"\nepochs = 2'}, "unknown key `client.epochs`"),
        ({"client": 'kind = "fed_avgg"'}, "unknown 'fed_avgg'; did you mean 'fed_avg'?"),
        ({"client": 'optimizer = "adan"'}, "unknown 'adan'; did you mean 'adam'?"),
        (
            {"client": 'optimizer = "adam"\nmomentum = 0.9'},
            "key `client`: momentum goes with optimizer 'sgd', not 'adam'",
        ),
        ({"server": 'kind = "adam"\nmomentum = 0.9'}, "unknown key `server.momentum`"),
        ({"server": 'kind = "adam"\nbeta_1 = 1'}, "key `server.beta_1`: Expected `float` < 1"),
        ({"server": 'kind = "yogi"\ntau = 0'}, "key `server.tau`: Expected `float` > 0"),
    ],
)
def test_mistakes_are_named(tables, mistake):
    with pytest.raises(InputError) as caught:
        _parse(**tables)
    assert mistake in str(caught.value)
    assert "\n" not in str(caught.value)
