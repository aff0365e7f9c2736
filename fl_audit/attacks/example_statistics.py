"""Statistics of canaries that hold examples; the attackers are in `fl_audit.run`.

The loss is minus the log-odds of the labels, which ranks single examples as cross-entropy does.
"""

from fl_audit.attacks.statistics import Statistic

FINAL_LOSS = Statistic(
    name="final_loss",
    title="Final loss",
    meaning=(
        "Minus the final model’s loss (minus the log-odds of the labels) on the canary’s data: the "
        "attacker may query that model, and nothing else."
    ),
    threat_model="final",
    canaries="examples",
    needs=frozenset({"final_model"}),
)

LOSS_DIFFERENCE = Statistic(
    name="loss_difference",
    title="Loss difference",
    meaning=(
        "The initial model’s loss on the canary’s data minus the final one’s: the attacker may "
        "query both (Steinke et al., black box)."
    ),
    threat_model="final_and_initial",
    canaries="examples",
    needs=frozenset({"initial_model", "final_model"}),
)

WHITE_BOX = Statistic(
    name="white_box",
    title="White box, sum",
    meaning=(
        "Sum over all rounds of the inner product of what the canary would send, clipped, with the "
        "noisy aggregate: the attacker sees every round (Steinke et al., white box)."
    ),
    threat_model="all_iterates",
    canaries="examples",
    needs=frozenset({"rounds"}),
)

WHITE_BOX_MAX = Statistic(
    name="white_box_max",
    title="White box, largest",
    meaning=(
        "Largest inner product, over all rounds, of what the canary would send, clipped, with the "
        "noisy aggregate: the attacker looks for a canary that appears once."
    ),
    threat_model="all_iterates",
    canaries="examples",
    needs=frozenset({"rounds"}),
)

WHITE_BOX_RATIO = Statistic(
    name="white_box_ratio",
    title="White box, likelihood ratio",
    meaning=(
        "Log likelihood ratio of participation, summed over all rounds, from what the canary would "
        "send, clipped, and what others may send: the attacker sees every round and has data like "
        "the clients’, and does not know who is sampled."
    ),
    threat_model="all_iterates",
    canaries="examples",
    needs=frozenset({"rounds"}),
)

WHITE_BOX_OWN = Statistic(
    name="white_box_own_rounds",
    title="White box, own rounds",
    meaning=(
        "Signals of the likelihood ratio, summed over the rounds in which the canary participates, "
        "or would if it were included, and divided by the sum’s standard deviation: the attacker "
        "knows the schedule."
    ),
    threat_model="known_rounds",
    canaries="examples",
    needs=frozenset({"rounds", "canary_rounds"}),
)

OF_EXAMPLES = (
    FINAL_LOSS,
    LOSS_DIFFERENCE,
    WHITE_BOX,
    WHITE_BOX_MAX,
    WHITE_BOX_RATIO,
    WHITE_BOX_OWN,
)
