#!/usr/bin/env bash
# Five participation patterns at three noise levels, then all of them side by side.
# Usage: run.sh FOLDER (new)
set -euo pipefail
config="$(dirname "$0")/config.toml"
folder="$1"
mkdir "$folder"

run() { # NAME NOISE [--set ...]
    fl-audit run "$config" --out "$folder/$1-$2" --set mechanism.noise_multiplier="$2" "${@:3}"
}

for noise in 0.0 0.1 0.2; do
    run repeats1 $noise
    run repeats4 $noise --set participation.canary_repeats=4
    run once_per_epoch $noise --set participation.canaries=once_per_epoch
    run bernoulli $noise --set participation.kind=bernoulli
    run most_frequent $noise --set participation.kind=min_separation \
        --set participation.separation=10 --set participation.canaries=most_frequent
done
fl-audit compare "$folder"/* --out "$folder.html"
