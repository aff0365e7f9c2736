"""The adapter for Opacus: with the real package where it is installed (`make test-opacus`)."""

from types import SimpleNamespace

import numpy as np
import pytest

from fl_audit.attacks import RoundScorer
from fl_audit.commands.estimate import read_profile
from fl_audit.errors import InputError
from fl_audit.formats.participation_files import read_participation
from fl_audit.opacus import CanaryGradients, write_claim
from fl_audit.report.checks import folder_canary_check, folder_checks
from fl_audit.report.folder import AuditedFolder, folder_statistics

STEPS, EXAMPLES, BATCH = 20, 200, 20


def training(noise_multiplier=1.0, **settings):
    """A model of 2,010 parameters, made private by Opacus."""
    torch = pytest.importorskip("torch")
    engine = pytest.importorskip("opacus", reason="needs make test-opacus").PrivacyEngine
    torch.manual_seed(1)
    inputs = torch.randn(EXAMPLES, 200)
    data = torch.utils.data.TensorDataset(inputs, inputs[:, :10].argmax(1))
    model = torch.nn.Linear(200, 10)
    return torch, *engine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=torch.utils.data.DataLoader(data, batch_size=BATCH),
        noise_multiplier=noise_multiplier,
        max_grad_norm=0.7,
        **settings,
    )


def make_steps(torch, model, optimizer, loader):
    for batch, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()


def audited(folder, torch, model, optimizer, loader, **settings):
    audit = CanaryGradients(
        optimizer, folder, num_steps=STEPS, seed=3, **{"count": 400, **settings}
    )
    while audit._step < STEPS:
        make_steps(torch, model, optimizer, loader)
    audit.finish()
    return audit


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_training_is_audited(tmp_path, sampled, reduction):
    parts = training(loss_reduction=reduction)
    rate = parts[-1].sample_rate if sampled else None
    before = parts[2].clip_and_accumulate
    audited(tmp_path / "audit", *parts, sample_rate=rate)
    assert parts[2].clip_and_accumulate == before
    folder = AuditedFolder(tmp_path / "audit")
    assert RoundScorer.open(folder.path).scored_rounds == list(range(1, STEPS + 1))
    found = folder_statistics(folder)
    assert {"max", "sum", "own_rounds", "final_minus_initial"} <= {one.name for one in found}
    canary_check = folder_canary_check(folder, found)
    # About 200 presentations where rounds are known, each with a deviation of about 1.
    assert canary_check.state == "arrived"
    assert canary_check.ratio == pytest.approx(1, abs=0.4)
    assert folder_checks(folder).passed is True
    stated = read_participation(folder.path / "participation.json")
    assert stated.claim_counts_on_sampling is sampled
    assert stated.probability == rate


@pytest.mark.filterwarnings("ignore")
def test_half_of_the_noise_is_noticed(tmp_path):
    torch, model, optimizer, loader = training()
    add_noise = optimizer.add_noise

    def less() -> None:
        optimizer.noise_multiplier = 0.5
        add_noise()
        optimizer.noise_multiplier = 1.0

    optimizer.add_noise = less
    audited(tmp_path / "audit", torch, model, optimizer, loader)
    assert folder_checks(AuditedFolder(tmp_path / "audit")).passed is False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("physical", [7, 1000])
def test_a_canary_is_in_a_step_once_and_clipped(tmp_path, physical):
    torch, model, optimizer, loader = training(noise_multiplier=0.0)
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    audit = CanaryGradients(optimizer, tmp_path / "audit", num_steps=STEPS, seed=3, count=100)
    pool, participations = audit.scorer.pool, audit._rounds.participations
    with BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=physical, optimizer=optimizer
    ) as batches:
        for batch, labels in batches:
            optimizer.zero_grad()
            # No example has a gradient, so that canaries are all that is released.
            (0 * torch.nn.functional.cross_entropy(model(batch), labels)).backward()
            step = audit._step
            optimizer.step()
            if audit._step == step:
                continue
            canaries = [
                canary for canary in participations.members_in(step) if pool.included[canary]
            ]
            released = np.concatenate([p.grad.numpy().ravel() for p in optimizer.params])
            expected = sum((pool.vector(canary) for canary in canaries), np.zeros(pool.dim))
            np.testing.assert_allclose(released, -0.7 / BATCH * expected, atol=1e-6)
    assert audit._step == len(loader)


@pytest.mark.filterwarnings("ignore")
def test_faults_do_not_end_the_training(tmp_path, caplog):
    torch, model, optimizer, loader = training()
    audit = CanaryGradients(optimizer, tmp_path / "audit", num_steps=3, seed=3, count=50)
    audit.scorer.score_round = None
    make_steps(torch, model, optimizer, loader)
    audit.finish()
    faults = (tmp_path / "audit" / "faults.txt").read_text().splitlines()
    assert len(faults) == len(loader)
    assert "training goes on" in caplog.text


class Parameter:
    """A parameter of 500 numbers, as much of it as is read, without PyTorch."""

    summed_grad = None
    grad_sample = ((),) * BATCH

    def __init__(self) -> None:
        self.grad = self

    def numel(self) -> int:
        return 500

    def detach(self) -> "Parameter":
        return self

    cpu = float = detach

    def numpy(self) -> np.ndarray:
        return np.ones(500, np.float32)


def an_optimizer(**attributes) -> SimpleNamespace:
    """An optimizer of one parameter without PyTorch; its steps are whole."""
    return SimpleNamespace(
        params=[Parameter()],
        clip_and_accumulate=lambda: None,
        pre_step=lambda closure: True,
        max_grad_norm=1.0,
        loss_reduction="sum",
        noise_multiplier=1.0,
        **attributes,
    )


@pytest.mark.parametrize("failing", ["CanaryGradients._add_canaries", "_batches"])
def test_a_step_whose_canaries_or_size_fail_is_left_out(tmp_path, monkeypatch, failing):
    monkeypatch.setattr(CanaryGradients, "_add_canaries", lambda audit: None)
    optimizer = an_optimizer()
    audit = CanaryGradients(optimizer, tmp_path / "audit", num_steps=3, seed=3, count=50)
    for step in range(3):
        with monkeypatch.context() as patched:
            if step == 1:
                patched.setattr(f"fl_audit.opacus.{failing}", None)
            optimizer.clip_and_accumulate()
            optimizer.pre_step(None)
    assert audit.scorer.scored_rounds == [1, 3]
    assert len((tmp_path / "audit" / "faults.txt").read_text().splitlines()) == 1


@pytest.mark.parametrize(("version", "is_known"), [("1.5.4", False), ("1.6.0", True)])
def test_an_older_adaptive_clip_is_refused(tmp_path, monkeypatch, version, is_known):
    """Before 1.6 the optimizer's own `noise_multiplier` was already the larger one."""
    monkeypatch.setattr("importlib.metadata.version", {"opacus": version}.__getitem__)
    optimizer = an_optimizer(unclipped_num_std=2.0)
    settings = {"num_steps": 3, "seed": 3, "count": 50}
    if is_known:
        CanaryGradients(optimizer, tmp_path / "audit", **settings)
    else:
        with pytest.raises(
            InputError, match=r"needs opacus 1\.6 or later for an adaptive clip norm"
        ):
            CanaryGradients(optimizer, tmp_path / "audit", **settings)
    assert (tmp_path / "audit").exists() is is_known


@pytest.mark.filterwarnings("ignore")
def test_an_audit_goes_on_after_a_restart(tmp_path):
    torch, model, optimizer, loader = training()
    settings = {"num_steps": STEPS, "seed": 3, "count": 50}
    first = CanaryGradients(optimizer, tmp_path / "audit", **settings)
    make_steps(torch, model, optimizer, loader)
    first.finish()
    second = CanaryGradients(optimizer, tmp_path / "audit", steps_before=len(loader), **settings)
    make_steps(torch, model, optimizer, loader)
    second.finish()
    assert RoundScorer.open(tmp_path / "audit").scored_rounds == list(range(1, 2 * len(loader) + 1))


@pytest.mark.filterwarnings("ignore")
def test_opacus_still_refuses_gradients_that_were_not_cleared(tmp_path):
    torch, model, optimizer, loader = training(poisson_sampling=False)
    CanaryGradients(optimizer, tmp_path / "audit", num_steps=STEPS, seed=3, count=50)
    batch, labels = next(iter(loader))
    torch.nn.functional.cross_entropy(model(batch), labels).backward()
    optimizer.step()
    torch.nn.functional.cross_entropy(model(batch), labels).backward()
    with pytest.raises(ValueError, match="haven't been cleared"):
        optimizer.step()


def test_the_claim_is_a_profile(tmp_path):
    engine = SimpleNamespace(get_epsilon=lambda delta: -np.log(delta))
    write_claim(engine, tmp_path / "claim.csv")
    points = read_profile(tmp_path / "claim.csv")
    assert len(points) == 25
    assert all(epsilon == pytest.approx(-np.log(delta)) for epsilon, delta in points)
    without_noise = SimpleNamespace(get_epsilon=lambda delta: np.inf)
    with pytest.raises(InputError, match=r"none\.csv: not written, as .* gives no finite epsilon"):
        write_claim(without_noise, tmp_path / "none.csv")
    assert not (tmp_path / "none.csv").exists()


class DPOptimizerFastGradientClipping:
    def clip_and_accumulate(self):
        """Nothing."""


@pytest.mark.parametrize(
    ("optimizer", "settings", "message"),
    [
        (SimpleNamespace(), {}, "must be a DPOptimizer of opacus"),
        (SimpleNamespace(clip_and_accumulate=None, world_size=2), {}, "in one process"),
        (DPOptimizerFastGradientClipping(), {}, "ghost clipping has no per-sample gradients"),
        (SimpleNamespace(clip_and_accumulate=None), {"steps_before": 9}, "steps_before"),
        (SimpleNamespace(clip_and_accumulate=None), {"num_steps": 0}, "number of rounds"),
        (SimpleNamespace(clip_and_accumulate=None), {"repeats": 9}, "repeats: must be in 1 to 8"),
        (SimpleNamespace(clip_and_accumulate=None), {"sample_rate": 2}, "probability"),
    ],
)
def test_what_cannot_be_audited_is_refused(tmp_path, optimizer, settings, message):
    optimizer.params = [SimpleNamespace(numel=lambda: 500)]
    with pytest.raises(InputError, match=message):
        CanaryGradients(optimizer, tmp_path / "audit", **{"num_steps": 8, "seed": 1, **settings})
    assert not (tmp_path / "audit").exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("choice", ["warn", "error"])
def test_lost_canaries_are_a_sentence_and_end_the_training_if_so_chosen(tmp_path, caplog, choice):
    _torch, _, optimizer, _ = parts = training(poisson_sampling=False)
    audit = CanaryGradients(
        optimizer, tmp_path / "audit", num_steps=STEPS, seed=3, count=400, lost_canaries=choice
    )
    audit._add_canaries = lambda: None
    sentence = "the canary check fails in round"

    def train():
        while audit._step < STEPS:
            make_steps(*parts)

    if choice == "error":
        with pytest.raises(InputError, match=sentence):
            train()
        assert audit.scorer.scored_rounds[-1] < STEPS
    else:
        train()
        assert [line.message.startswith(sentence) for line in caplog.records] == [True]
