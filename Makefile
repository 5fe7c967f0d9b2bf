# ackmark: what durability costs an acknowledged write.
# The comment above a target is its help text: `make help`.

# Where brokers keep their data during a run: DATA=/mnt/nvme make run
DATA ?= .
# Where results go: OUT/NAME/TIME.
OUT ?= results

# Of everything random in `make torture`.
SEED ?= 1
# The browser that `make report-check` starts.
CHROMIUM ?= chromium
# What `make experiments` runs, each alone by `make experiment-NAME`; QUICK=1 runs each shortly.
EXPERIMENTS ?= durability isr-gate heartbeat-partition failover last-replica-standing unclean-recovery \
	premature-expansion fetch-pipeline rolling-restart
QUICK ?=
# How many seeds `make sim` runs of each profile.
SEEDS ?= 10000

CARGO ?= cargo
ACKMARK = target/release/ackmark

.DEFAULT_GOAL := help
.PHONY: help run quick test check report-check fix bench bench-floor bench-controller bench-engines throughput \
	sim model experiments ci-demo gate-calibration histogram-check probe clean build

# list the targets
help:
	@awk '/^# / { text = substr($$0, 3) } \
	      /^[a-z-]+:/ && text { sub(":.*", ""); printf "  make %-14s %s\n", $$0, text } \
	      !/^#/ { text = "" }' $(MAKEFILE_LIST)

# measure acks 1 and all under every durability mode, in under two minutes
run: build
	$(ACKMARK) run --data "$(DATA)" --out "$(OUT)"

# the same cells, about a second each
quick: build
	$(ACKMARK) run --quick --data "$(DATA)" --out "$(OUT)"

# run all tests; those that start clusters one at a time: each alone has more processes than CPUs
test:
	$(CARGO) test --lib --bins --test hot_path --test model
	$(CARGO) test --test suite -- --test-threads=1

# simulate clusters under seeded faults and check the replication rules: SEEDS=10000 make sim
sim: build
	$(ACKMARK) simulate --seeds $(SEEDS)
	$(ACKMARK) simulate --seeds $(SEEDS) --profile anything

# search the exhaustive model in wider bounds than `make test` has time for
model:
	MODEL=wide $(CARGO) test --release --test model exhaustive::kip966

# check format, lints and documentation; changes nothing
check:
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy --test report_check -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items

# read the HTML report back in headless Chromium: numbers, speed, widths, colours
report-check:
	@command -v "$(CHROMIUM)" >/dev/null || { echo "report-check needs Chromium: apt-get install chromium, or make report-check CHROMIUM=/path/to/it" >&2; exit 1; }
	CHROMIUM="$(CHROMIUM)" $(CARGO) test --test report_check -- --nocapture --test-threads=1

# format, and apply what clippy can apply
fix:
	$(CARGO) clippy --fix --allow-dirty --all-targets
	$(CARGO) fmt

# time the hot code alone: batch and CRC, append, high watermark, fetch from memory
bench:
	$(CARGO) bench

# set the log writer against fio on the same file pattern; needs fio
bench-floor: build
	$(ACKMARK) bench-floor --data "$(DATA)"

# set the controller path against a sync and a round trip alone
bench-controller: build
	$(ACKMARK) bench-controller --data "$(DATA)"

# compare the uring and glommio engines
bench-engines: build
	$(ACKMARK) run fixtures/workloads/engines.toml --data "$(DATA)" --out "$(OUT)"

# fill every window: bytes per second over all replicas, and the memory it takes
throughput: build
	$(ACKMARK) run fixtures/workloads/throughput.toml --data "$(DATA)" --out "$(OUT)"

# random faults for ten minutes: nothing acknowledged may be lost; SEED=n
torture: build
	$(ACKMARK) torture --minutes 10 --seed $(SEED) --data "$(DATA)"

# run all experiments of docs/experiments into results/experiments; QUICK=1 for a look
experiments: build
	ACKMARK=$(ACKMARK) DATA="$(DATA)" QUICK=$(QUICK) scripts/experiments.sh $(EXPERIMENTS)

experiment-%: build
	ACKMARK=$(ACKMARK) DATA="$(DATA)" QUICK=$(QUICK) scripts/experiments.sh $*

# show what this machine and directory are, and the directory's own speed
probe: build
	$(ACKMARK) probe "$(DATA)"

# go through a CI job on a small workload: baseline, run, gate, trend, exports
ci-demo: build
	ACKMARK=$(ACKMARK) DATA="$(DATA)" scripts/ci_demo.sh

# show how often the gate is wrong: 40 pairs of equals, 20 with one side slowed down (20 minutes)
gate-calibration: build
	rm -f target/gate-calibration.csv
	ACKMARK=$(ACKMARK) DATA="$(DATA)" scripts/gate_calibration.sh aa 40 target/gate-calibration.csv
	ACKMARK=$(ACKMARK) DATA="$(DATA)" scripts/gate_calibration.sh slow 20 target/gate-calibration.csv
	scripts/gate_calibration.sh summary target/gate-calibration.csv

# open the histograms with HdrHistogram's Python package (installs it below target/)
histogram-check: build
	ACKMARK=$(ACKMARK) scripts/histogram_check.sh

# remove what was built; results stay
clean:
	$(CARGO) clean

build:
	$(CARGO) build --release
