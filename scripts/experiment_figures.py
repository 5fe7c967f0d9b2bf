#!/usr/bin/env python3
"""Prints the tables of docs/experiments from stored results: experiment_figures.py NAME...

One row a cell, in Markdown, for results/experiments/NAME and NAME-*; times in milliseconds as
"median / longest". Reads result.json alone.
"""

import json
import pathlib
import statistics
import sys

RESULTS = pathlib.Path("results/experiments")
PARTS = ["detection", "election", "propagation", "client", "answer"]
TOTALS = ["leader_elected", "acknowledged", "high_watermark_moved"]
KEPT = ["acknowledged", "lost", "duplicated", "duplicated_by_retries", "visible_lost"]


def milliseconds(samples_ns):
    if not samples_ns:
        return "-"
    return f"{statistics.median(samples_ns) / 1e6:.1f} / {max(samples_ns) / 1e6:.1f}"


def row(values):
    print("| " + " | ".join(str(value) for value in values) + " |")


def cells(name):
    folders = sorted(path for path in RESULTS.glob(f"{name}*") if path.is_dir())
    for folder in folders:
        result = json.loads((folder / "result.json").read_text())
        for cell in result["cells"]:
            yield folder.name, cell


def failovers(name):
    print("\n### Lost leaders\n")
    row(["workload", "cell", "lost", "successors", *TOTALS, *PARTS])
    row(["---"] * (4 + len(TOTALS) + len(PARTS)))
    for workload, cell in cells(name):
        losses = [loss for repeat in cell["repeats"] for loss in repeat.get("failovers", [])]
        found = [loss.get("successor", "none") for loss in losses]
        successors = ", ".join(f"{found.count(kind)} {kind}" for kind in sorted(set(found)))
        took = [
            milliseconds([loss["took_ns"][part] for loss in losses if part in loss["took_ns"]])
            for part in TOTALS + PARTS
        ]
        row([workload, cell["name"], len(losses), successors, *took])


def kept(name):
    print("\n### Records\n")
    row(["workload", "cell", "repeats", "repeats with a loss", *KEPT, "outcome unknown", "worst wait, ms"])
    row(["---"] * (6 + len(KEPT)))
    for workload, cell in cells(name):
        checks = [repeat["check"] for repeat in cell["repeats"] if repeat.get("check")]
        sums = [sum(check[key] for check in checks) for key in KEPT]
        unknown = sum(check["unknown_kept"] + check["unknown_lost"] for check in checks)
        lossy = sum(check["lost"] > 0 for check in checks)
        worst = cell["latency"]["acknowledged"].get("max_ns")
        worst = f"{worst / 1e6:.0f}" if worst is not None else "-"
        row([workload, cell["name"], len(checks), lossy, *sums, unknown, worst])


for asked in sys.argv[1:]:
    print(f"\n## {asked}")
    failovers(asked)
    kept(asked)
