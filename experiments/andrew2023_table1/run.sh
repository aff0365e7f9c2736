#!/bin/sh
# Andrew et al. (2023), Table 1: one-shot audits of the Gaussian mechanism.
# Usage: sh experiments/andrew2023_table1/run.sh [TRIALS, 50 as in the paper]
set -eu
here=$(dirname "$0")
for epsilon in 1 3 10; do
    # The row's epsilon is its seed too: rows with one seed would share canaries and noise.
    fl-audit mechanism --epsilon "$epsilon" --delta 1e-6 --dim 1000000 --canaries 1000 \
        --trials "${1:-50}" --seed "$epsilon" --json > "$here/epsilon_$epsilon.json"
done
