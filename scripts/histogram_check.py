"""Reads every histogram of a result with HdrHistogram's Python package and holds it against the
figures beside it, then writes the same result with the histograms that package encoded.

Usage: histogram_check.py RESULT.json REENCODED.json
"""

import json
import sys

from hdrh.histogram import HdrHistogram

KEY = "histogram_v2_deflate_base64"
# A bucket spans at most a thousandth of its value.
TOLERANCE = 0.001


def check(path, latency):
    histogram = HdrHistogram.decode(latency[KEY])
    counted = latency["count"] - latency["overflow_count"]
    assert histogram.get_total_count() == counted, f"{path}: {histogram.get_total_count()} of {counted}"
    for name, expected in latency["percentiles_ns"].items():
        value = histogram.get_value_at_percentile(float(name[1:]))
        assert abs(value - expected) <= TOLERANCE * expected, f"{path}.{name}: {value}, not {expected}"
    latency[KEY] = histogram.encode().decode("ascii")


def walk(path, value):
    """Checks every distribution below `value`; returns how many there were."""
    found = 0
    if isinstance(value, dict):
        if value.get(KEY):
            check(path, value)
            return 1
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    else:
        return 0
    for key, child in children:
        found += walk(f"{path}.{key}", child)
    return found


def main():
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        result = json.load(file)
    found = walk("result", result)
    assert found > 0, f"{source}: holds no histogram"
    with open(target, "w", encoding="utf-8") as file:
        json.dump(result, file)
    print(f"{source}: {found} histograms agree with HdrHistogram's Python package")


main()
