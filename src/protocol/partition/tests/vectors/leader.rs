//! Vectors with scope leader: the start that `given` describes, and what each step does.

use std::collections::BTreeMap;

use super::*;
use crate::protocol::partition::leader::Leader;
use crate::protocol::partition::replica_progress::FetchEpoch;

/// Produces time out only where a step says so, the first of them then.
const TIMEOUTS_FROM_MS: u64 = 1_000_000_000_000;

/// A leader under test, and what the steps leave beside it.
pub(super) struct Run {
    pub(super) machine: Machine,
    /// Produces that get an answer.
    pub(super) requests: BTreeMap<String, RequestId>,
    pub(super) refused_by_shell: BTreeMap<String, ErrorCode>,
    pub(super) last_fetch: Option<RequestId>,
    /// As metadata last had it; of a leader the ISR may be a newer one.
    metadata: PartitionMetadata,
    /// Produces that will time out, in that order.
    timeouts: Vec<String>,
}

pub(super) fn run_leader(vector: &Value) -> Result<(), String> {
    let mut run = given(vector);
    for step in steps(vector) {
        if let Some(ms) = int(&step["atMs"]) {
            run.machine.now_ms = ms.unsigned_abs();
        }
        run.step(step);
    }
    let expect = &vector["expect"];
    differences(expect, |key| run.observed(key, &expect[key]))
}

/// The leader a vector's `given` describes, with the parts no input can bring about set directly.
fn given(vector: &Value) -> Run {
    let given = &vector["given"];
    let shape = ["local", "replicas", "isr", "minISR", "leaderEpoch", "partitionEpoch"];
    let log_ends = ["leo", "hwm", "logStart", "epochStart"];
    let others = ["followers", "aliveEpochs", "fenced", "shuttingDown"];
    refuse_unknown(given, &[&shape[..], &log_ends, &others].concat());
    assert_eq!(int32(&given["local"]), Some(LOCAL.0));
    let end = int(&given["leo"]).unwrap();
    let epoch_start = int(&given["epochStart"]).unwrap_or(end);
    let log_start = int(&given["logStart"]).unwrap_or(0);
    let high_watermark = int(&given["hwm"]).unwrap_or(log_start);
    let epoch = int32(&given["leaderEpoch"]).map_or(LEADER_EPOCH, LeaderEpoch);
    let log = log(&[(epoch.0, epoch_start)], log_start, end, high_watermark);
    let min_isr = usize::try_from(int(&given["minISR"]).unwrap()).unwrap();
    let mut machine = Machine::new(settings_of(vector, min_isr), log);
    let replicas = list(&given["replicas"]).unwrap();
    let metadata = PartitionMetadata {
        leader_epoch: epoch,
        partition_epoch: PartitionEpoch(int32(&given["partitionEpoch"]).unwrap_or(1)),
        ..metadata(LOCAL.0, &replicas, &list(&given["isr"]).unwrap())
    };
    let brokers = changed_peers(&machine, given);
    machine.step(Input::Peers(brokers));
    machine.step(Input::Metadata(metadata.clone()));
    let leader = leader(&mut machine).expect("it leads");
    leader.epoch_start_offset = Offset(epoch_start);
    for (id, known) in given["followers"].as_object().into_iter().flatten() {
        give_progress(leader, id.parse().unwrap(), known);
    }
    machine.out.clear();
    let timeouts = steps(vector).into_iter().filter(|step| kind(step) == "produce_timeout");
    Run {
        machine,
        requests: BTreeMap::new(),
        refused_by_shell: BTreeMap::new(),
        last_fetch: None,
        metadata,
        timeouts: timeouts.filter_map(|step| step["id"].as_str().map(str::to_owned)).collect(),
    }
}

fn leader(machine: &mut Machine) -> Option<&mut Leader> {
    match &mut machine.partition.role {
        Role::Leader(leader) => Some(leader),
        Role::Unknown | Role::Idle { .. } | Role::Follower(_) => None,
    }
}

fn give_progress(leader: &mut Leader, id: i32, known: &Value) {
    refuse_unknown(known, &["leo", "brokerEpoch", "lastCaughtUpMs"]);
    let follower = leader.followers.iter_mut().find(|follower| follower.id == BrokerId(id));
    let follower = follower.expect("an assigned follower");
    follower.log_end_offset = int(&known["leo"]).filter(|&end| end >= 0).map(Offset);
    follower.fetch_epoch = match carried_epoch(id, &known["brokerEpoch"]) {
        _ if follower.log_end_offset.is_none() => FetchEpoch::Unseen,
        Some(epoch) => FetchEpoch::Given(epoch),
        None => FetchEpoch::NotGiven,
    };
    if let Some(ms) = int(&known["lastCaughtUpMs"]) {
        follower.last_caught_up_time = (ms > 0).then(|| at_ms(ms.unsigned_abs()));
    }
}

/// The epoch a fetch of broker `id` carries: -1 is none, and without a word it is the registered one.
fn carried_epoch(id: i32, value: &Value) -> Option<BrokerEpoch> {
    match int(value) {
        Some(-1) => None,
        Some(epoch) => Some(BrokerEpoch(epoch)),
        None => Some(broker_epoch(id)),
    }
}

/// The brokers as known, but for what `change` says of them.
fn changed_peers(machine: &Machine, change: &Value) -> Vec<Peer> {
    let mut brokers = machine.partition.local.peers.clone();
    let (fenced, leaving) = (list(&change["fenced"]), list(&change["shuttingDown"]));
    for broker in &mut brokers {
        if let Some(fenced) = &fenced {
            broker.fenced = fenced.contains(&broker.id.0);
        }
        if let Some(leaving) = &leaving {
            broker.in_controlled_shutdown = leaving.contains(&broker.id.0);
        }
        if let Some(epoch) = change["aliveEpochs"].get(broker.id.to_string()) {
            broker.epoch = int(epoch).filter(|&epoch| epoch >= 0).map(BrokerEpoch);
        }
    }
    brokers
}

impl Run {
    fn step(&mut self, step: &Value) {
        match kind(step) {
            "produce" => self.produce(step),
            "produce_timeout" => self.time_out(step),
            "fetch" => self.fetch(step),
            "metadata" => self.change_metadata(step),
            "shrink_tick" => {
                refuse_unknown(step, &["type", "atMs"]);
                let now = self.machine.now();
                self.tick_with_shrink_check(now);
            }
            "alter_ok" => self.commit(step),
            "alter_error" => {
                refuse_unknown(step, &["type", "atMs", "error"]);
                let error = step["error"].as_str().expect("an error has a name");
                self.machine.refuse_proposal(error_named(error));
            }
            other => panic!("unknown step {other}"),
        }
    }

    /// The lag timer looks if `due` has come, whatever its timetable.
    fn tick_with_shrink_check(&mut self, due: MonotonicTime) {
        if let Some(leader) = leader(&mut self.machine) {
            leader.shrink_check_at = due;
        }
        self.machine.step(Input::Tick);
    }

    fn produce(&mut self, step: &Value) {
        refuse_unknown(step, &["type", "atMs", "id", "acks", "records"]);
        let id = step["id"].as_str().unwrap().to_owned();
        let acks = i16::try_from(int(&step["acks"]).unwrap()).unwrap();
        let Some(acks) = Acks::from_wire(acks) else {
            self.refused_by_shell.insert(id, ErrorCode::InvalidRequiredAcks);
            return;
        };
        let request = self.machine.request();
        let record_count = u32::try_from(int(&step["records"]).unwrap()).unwrap();
        let deadline = at_ms(self.times_out_at_ms(&id));
        self.machine.step(Input::Produce { request, acks, record_count, deadline });
        // Without acks the shell tells nobody.
        if acks != Acks::None {
            self.requests.insert(id, request);
        }
        self.machine.durable(self.machine.partition.log_end_offset().0);
    }

    fn times_out_at_ms(&self, id: &str) -> u64 {
        let place = self.timeouts.iter().position(|named| named == id);
        TIMEOUTS_FROM_MS + u64::try_from(place.unwrap_or(self.timeouts.len())).unwrap()
    }

    /// The produce named, else all: waiting is over, and nothing else happens meanwhile.
    fn time_out(&mut self, step: &Value) {
        refuse_unknown(step, &["type", "atMs", "id"]);
        let id = step["id"].as_str();
        assert!(id.is_none_or(|id| self.requests.contains_key(id)), "no such produce: {step}");
        let now_ms = self.machine.now_ms;
        self.machine.now_ms = self.times_out_at_ms(id.unwrap_or_default());
        self.tick_with_shrink_check(MonotonicTime(u64::MAX));
        self.machine.now_ms = now_ms;
    }

    fn fetch(&mut self, step: &Value) {
        refuse_unknown(
            step,
            &[
                "type",
                "atMs",
                "replica",
                "offset",
                "brokerEpoch",
                "leaderEpoch",
                "lastFetchedEpoch",
            ],
        );
        let id = int32(&step["replica"]).unwrap();
        let fetcher = Fetcher::Follower {
            id: BrokerId(id),
            epoch: carried_epoch(id, &step["brokerEpoch"]),
            log_start_offset: Offset::ZERO,
        };
        let (claimed, last) =
            (given_epoch(&step["leaderEpoch"]), given_epoch(&step["lastFetchedEpoch"]));
        let offset = int(&step["offset"]).unwrap();
        let (request, _) = self.machine.fetch_as(fetcher, offset, claimed, last);
        self.last_fetch = Some(request);
    }

    /// What a reply does not say is as proposed, and as known.
    fn commit(&mut self, step: &Value) {
        refuse_unknown(step, &["type", "atMs", "leader", "leaderEpoch", "partitionEpoch", "isr"]);
        let proposal = self.machine.last_proposal().expect("a proposal was sent").clone();
        let proposed = proposal.isr.iter().map(|&(id, _)| id).collect();
        let term = self.machine.partition.term().unwrap();
        let committed = IsrCommitted {
            leader: int32(&step["leader"]).map_or(Some(LOCAL), broker),
            leader_epoch: int32(&step["leaderEpoch"]).map_or(term.leader_epoch, LeaderEpoch),
            partition_epoch: int32(&step["partitionEpoch"])
                .map_or_else(|| next(term.partition_epoch), PartitionEpoch),
            isr: list(&step["isr"]).map_or(proposed, |isr| ids(&isr)),
        };
        self.machine.step(Input::IsrCommitted { proposal, committed });
    }

    /// One metadata batch: brokers, then the partition, then settings (spec/kip966.md 1.2).
    fn change_metadata(&mut self, step: &Value) {
        let of_brokers = ["fenced", "shuttingDown", "aliveEpochs"];
        let of_partition = ["isr", "replicas", "leader", "leaderEpoch", "partitionEpoch"];
        let others = ["type", "atMs", "minISR"];
        refuse_unknown(step, &[&of_brokers[..], &of_partition, &others].concat());
        let speaks_of = |fields: &[&str]| fields.iter().any(|field| !step[*field].is_null());
        if speaks_of(&of_brokers) {
            let brokers = changed_peers(&self.machine, step);
            self.machine.step(Input::Peers(brokers));
        }
        if speaks_of(&of_partition) {
            let metadata = self.changed_partition(step);
            self.machine.step(Input::Metadata(metadata.clone()));
            if self.machine.partition.term().unwrap().partition_epoch == metadata.partition_epoch {
                self.metadata = metadata;
            }
        }
        if let Some(min_isr) = int(&step["minISR"]) {
            let min_isr = usize::try_from(min_isr).unwrap();
            let settings = Settings { min_isr, ..self.machine.partition.local.settings };
            self.machine.step(Input::Settings(settings));
        }
    }

    /// The partition as known, but for what the step says. Every change has a partition epoch.
    fn changed_partition(&self, step: &Value) -> PartitionMetadata {
        let partition = &self.machine.partition;
        let known = &self.metadata;
        let isr = if partition.is_leader() { partition.committed_isr() } else { &known.isr };
        let term = partition.term().unwrap();
        PartitionMetadata {
            replicas: list(&step["replicas"]).map_or(known.replicas.clone(), |all| ids(&all)),
            isr: list(&step["isr"]).map_or(isr.to_vec(), |isr| ids(&isr)),
            leader: int32(&step["leader"]).map_or(partition.leader(), broker),
            leader_epoch: int32(&step["leaderEpoch"]).map_or(term.leader_epoch, LeaderEpoch),
            partition_epoch: int32(&step["partitionEpoch"])
                .map_or_else(|| next(term.partition_epoch), PartitionEpoch),
            recovering: false,
        }
    }
}

fn broker(id: i32) -> Option<BrokerId> {
    (id >= 0).then_some(BrokerId(id))
}

fn next(epoch: PartitionEpoch) -> PartitionEpoch {
    PartitionEpoch(epoch.0 + 1)
}
