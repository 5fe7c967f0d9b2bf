#!/usr/bin/env bash
# Opens this program's histograms with HdrHistogram's Python package, and that package's with this
# program: both must see the same samples. Installs the package below target/, so it needs Python and
# the package index once; without them it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
ackmark=${ACKMARK:-target/release/ackmark}
place=target/histogram-check
version=0.10.8

if [[ ! -e $place/installed-$version ]]; then
    rm -rf "$place"
    python3 -m venv "$place" ||
        { echo "histogram-check: cannot make a Python environment (python3 with venv is needed)" >&2; exit 1; }
    "$place/bin/pip" install --quiet --disable-pip-version-check "hdrhistogram==$version" ||
        { echo "histogram-check: cannot install hdrhistogram $version from the package index" >&2; exit 1; }
    touch "$place/installed-$version"
fi

for result in "${@:-fixtures/results/v1/paced.json}"; do
    "$place/bin/python" scripts/histogram_check.py "$result" "$place/reencoded.json"
    # Read back by this program: every ratio is exactly 1.
    "$ackmark" compare "$result" "$place/reencoded.json" --json > "$place/compared.json"
    "$place/bin/python" - "$place/compared.json" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1], encoding="utf-8"))
ratios = [row["ratio"] for cell in report["cells"] for row in cell["rows"] if row["ratio"] is not None]
assert ratios and all(ratio == 1.0 for ratio in ratios), ratios
print(f"{len(ratios)} percentiles are the same from that package's histograms")
PYTHON
done
echo "histogram-check: PASS"
