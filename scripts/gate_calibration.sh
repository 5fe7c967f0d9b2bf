#!/usr/bin/env bash
# How often does the gate cry wolf, and how often does it see one? Pairs of one program against
# itself (A/A), and pairs in which one side is slowed down by 15 % on purpose. Each pair is one
# `ackmark gate --against`; its exit status is its answer: 0 nothing found, 1 a regression.
#
# Usage: gate_calibration.sh KIND COUNT FILE   run COUNT pairs of KIND (aa or slow), append to FILE
#        gate_calibration.sh summary FILE      count, and hold against the bars
set -euo pipefail
cd "$(dirname "$0")/.."
ackmark=${ACKMARK:-target/release/ackmark}
data=${DATA:-.}
rounds=${ROUNDS:-10}
place=target/gate-calibration

pairs() { # KIND COUNT FILE
    local kind=$1 count=$2 file=$3 options=() status at ratio
    [[ $kind == slow ]] && options=(--inject-slowdown 15%)
    mkdir -p "$place" "$(dirname "$file")"
    [[ -s $file ]] || echo "kind,date,rounds,exit_status,p50_ratio,p50_low,p50_high,decision" > "$file"
    for ((at = 0; at < count; at++)); do
        rm -rf "$place/out"
        status=0
        "$ackmark" gate --against "$ackmark" --rounds "$rounds" --max-regression 10% --json \
            --data "$data" --out "$place/out" "${options[@]}" \
            > "$place/gate.json" 2> "$place/stderr.txt" || status=$?
        if ((status > 1)); then
            cat "$place/stderr.txt" >&2
            exit "$status"
        fi
        ratio=$(python3 -c '
import json, sys
judgement = json.load(open(sys.argv[1], encoding="utf-8"))
row = judgement["report"]["cells"][0]["rows"][0]
figures = ",".join("%.4f" % row[key] for key in ("ratio", "ratio_low", "ratio_high"))
print(figures + "," + judgement["decision"])' "$place/gate.json")
        echo "$kind,$(date -u +%FT%TZ),$rounds,$status,$ratio" | tee -a "$file"
    done
}

summary() { # FILE
    awk -F, 'NR > 1 { total[$1]++; if ($4 == 1) flagged[$1]++ }
        END {
            printf "A/A: %d of %d flagged (bar: at most 2 of 40)\n", flagged["aa"], total["aa"]
            printf "15 %% slower: %d of %d caught (bar: at least 18 of 20)\n", flagged["slow"], total["slow"]
            pass = total["aa"] >= 40 && flagged["aa"] * 40 <= 2 * total["aa"] &&
                   total["slow"] >= 20 && flagged["slow"] * 20 >= 18 * total["slow"]
            print "gate-calibration: " (pass ? "PASS" : "MISSED")
            exit !pass
        }' "$1"
}

case $1 in
    aa | slow) pairs "$@" ;;
    summary) summary "$2" ;;
    *) echo "gate_calibration.sh: KIND must be aa, slow or summary" >&2; exit 2 ;;
esac
