#!/bin/sh
# Runs experiments: scripts/experiments.sh NAME... ; each NAME is one page in docs/experiments and one
# or more workloads, NAME.toml and NAME-*.toml. Results replace the ones in results/experiments.
# From the environment: ACKMARK (the program), DATA (where brokers keep their data), QUICK=1.
set -eu

ackmark=${ACKMARK:-target/release/ackmark}
data=${DATA:-.}
workloads=fixtures/workloads/experiments
results=results/experiments
quick=${QUICK:+--quick}

status=0
for name in "$@"; do
    found=
    for workload in "$workloads/$name.toml" "$workloads/$name"-*.toml; do
        [ -e "$workload" ] || continue
        found=1
        variant=$(basename "$workload" .toml)
        out=$(mktemp -d)
        echo "== $variant"
        # Data that is wrong (6) is a finding: the other experiments are run all the same.
        # shellcheck disable=SC2086 # no word where QUICK is not set
        "$ackmark" run "$workload" $quick --data "$data" --out "$out" || status=$?
        if [ -d "$out/$variant" ]; then
            rm -rf "${results:?}/$variant"
            mkdir -p "$results"
            mv "$out/$variant"/* "$results/$variant"
        fi
        rm -rf "$out"
    done
    if [ -z "$found" ]; then
        echo "no experiment $name: there is no $workloads/$name.toml and no $name-*.toml" >&2
        exit 2
    fi
done
exit "$status"
