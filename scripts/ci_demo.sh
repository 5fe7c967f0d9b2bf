#!/usr/bin/env bash
# The whole loop of a CI job on a small workload: baseline, run, gate, history, trend page, exports.
# Everything goes to one folder below target/. Two runs of one program: the gate must not find a
# regression, so anything but 0 fails.
set -euo pipefail
cd "$(dirname "$0")/.."
ackmark=${ACKMARK:-target/release/ackmark}
data=${DATA:-.}
place=target/ci-demo
rm -rf "$place"
mkdir -p "$place"

run() { # NAME: runs the workload, prints the result's folder
    "$ackmark" run fixtures/workloads/ci.toml --data "$data" --out "$place/$1" > "$place/$1.txt"
    echo "$place/$1"/ci/*
}

echo "== baseline"
baseline=$(run baseline)
echo "== the change"
new=$(run new)
echo "== compare"
"$ackmark" compare "$baseline" "$new"
echo "== gate on the two stored results"
"$ackmark" gate --baseline "$baseline" "$new" --max-regression 50% --max-tail-regression 200%
echo "== gate with both programs in turns (here: the same one)"
"$ackmark" gate --against "$ackmark" --rounds 6 --max-regression 25% --max-tail-regression 200% \
    --data "$data" --out "$place/against"
echo "== history, trend page, exports"
"$ackmark" trend "$baseline" "$new" --history "$place/history" --html "$place/trend.html" \
    --export github-smaller="$place/latency.json" \
    --export github-bigger="$place/rate.json" \
    --export bencher="$place/bencher.json" \
    --export prometheus="$place/ackmark.prom" \
    --export csv="$place/history.csv"
ls -l "$place"
