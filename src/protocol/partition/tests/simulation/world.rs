//! The simulation's shell: carries out outputs, delivers messages in any order, injects faults.
//! What must hold is in `oracle`.

use std::collections::BTreeMap;

use super::broker::{Broker, FetchRequest, Record, batch_length, spans};
use super::controller::Controller;
use super::*;

pub(super) const BROKERS: [BrokerId; 3] = [BrokerId(1), BrokerId(2), BrokerId(3)];

/// How often things go wrong.
pub(super) struct Faults {
    pub(super) lost_percent: usize,
    pub(super) kill_percent: usize,
    pub(super) election_percent: usize,
}

/// On the wire. `life` is the broker life an answer is for; a later life never sees it.
pub(super) enum Message {
    Fetch {
        from: BrokerId,
        life: BrokerEpoch,
        fetch: FollowerFetch,
    },
    Answer {
        to: BrokerId,
        life: BrokerEpoch,
        fetch: FollowerFetch,
        result: Response,
    },
    /// Beside a fetch in flight: it is never answered.
    Acknowledge {
        from: BrokerId,
        life: BrokerEpoch,
        fetch: FollowerFetch,
    },
    Alter {
        from: BrokerId,
        life: BrokerEpoch,
        proposal: IsrProposal,
    },
    Altered {
        to: BrokerId,
        life: BrokerEpoch,
        proposal: IsrProposal,
        result: Result<IsrCommitted, ErrorCode>,
    },
}

/// What a fetch got: the answer's header and the records, or an error.
pub(super) type Response = Result<(FetchAnswer, Vec<Record>), ErrorCode>;

pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) random: Random,
    pub(super) now_ms: u64,
    pub(super) brokers: [Broker; 3],
    pub(super) controller: Controller,
    pub(super) messages: Vec<Message>,
    pub(super) next_request: u64,
    /// Value and acks of produces under way, by request.
    pub(super) produces: BTreeMap<RequestId, (u64, Acks)>,
    /// Base offset and value of every batch acknowledged under `acks=all`.
    pub(super) acknowledged: Vec<(Offset, u64)>,
    /// The prefix some leader has committed.
    pub(super) committed: Vec<Record>,
    /// The first contradiction found.
    pub(super) broken: Option<String>,
    pub(super) truncations: u64,
    /// Acknowledgements sent while a fetch was in flight.
    pub(super) acknowledgements: u64,
    pub(super) counters: IsrCounters,
    pub(super) out: Vec<Output>,
}

impl World {
    pub(super) fn new(settings: Settings, random: Random) -> World {
        let mut controller = Controller::new(&BROKERS);
        let brokers = BROKERS.map(|id| Broker::new(id, controller.register(id), settings));
        BROKERS.into_iter().for_each(|id| controller.unfence(id));
        let mut world = World {
            settings,
            random,
            now_ms: 1_000,
            brokers,
            controller,
            messages: Vec::new(),
            next_request: 0,
            produces: BTreeMap::new(),
            acknowledged: Vec::new(),
            committed: Vec::new(),
            broken: None,
            truncations: 0,
            acknowledgements: 0,
            counters: IsrCounters::default(),
            out: Vec::new(),
        };
        world.publish();
        world
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    pub(super) fn elections(&self) -> u64 {
        self.controller.elections
    }

    pub(super) fn truncations(&self) -> u64 {
        self.truncations
    }

    pub(super) fn isr_counters(&self) -> IsrCounters {
        self.counters
    }

    /// Different runs differ in this.
    pub(super) fn fingerprint(&self) -> String {
        format!("{} {:?} {:?}", self.now_ms, self.acknowledged, self.committed)
    }

    pub(super) fn random_action(&mut self, faults: &Faults) {
        self.now_ms += u64::try_from(self.random.below(8)).unwrap();
        let broker = self.random.below(BROKERS.len());
        match self.random.below(100) {
            0..15 => self.produce(broker),
            15..30 => self.make_durable(broker),
            30..45 => self.send_fetch(broker),
            45..75 if !self.messages.is_empty() => {
                let index = self.random.below(self.messages.len());
                let message = self.messages.swap_remove(index);
                if self.random.percent(faults.lost_percent) {
                    self.lose(message);
                } else {
                    self.deliver(message);
                }
            }
            75..90 => self.read_change(broker),
            90..94 => self.tick(broker),
            94..97 if self.random.percent(10 * faults.kill_percent) => self.kill(broker),
            97..99 => self.revive(broker),
            99.. if self.random.percent(20 * faults.election_percent) => {
                self.controller.elect(Some(BROKERS[broker]));
                self.publish();
            }
            _ => {}
        }
    }

    fn produce(&mut self, broker: usize) {
        if !self.brokers[broker].alive || !self.brokers[broker].partition.is_leader() {
            return;
        }
        let request = self.request();
        let acks = if self.random.percent(60) { Acks::All } else { Acks::Leader };
        let value = request.0;
        self.produces.insert(request, (value, acks));
        let record_count = u32::try_from(batch_length(value)).unwrap();
        let deadline = at_ms(self.now_ms + 300);
        self.step(broker, Input::Produce { request, acks, record_count, deadline });
    }

    /// A sync completes over some of the tail, which is whole batches.
    fn make_durable(&mut self, broker: usize) {
        let Broker { alive, partition, log, .. } = &self.brokers[broker];
        let durable = usize::try_from(partition.durable_offset().0).unwrap();
        if *alive && durable < log.len() {
            let mut end = durable + 1 + self.random.below(log.len() - durable);
            while log.get(end).is_some_and(|next| next.batch == log[end - 1].batch) {
                end += 1;
            }
            self.step(broker, Input::Durable(Offset(i64::try_from(end).unwrap())));
        }
    }

    pub(super) fn finish_sync(&mut self, broker: usize) {
        let end = self.brokers[broker].partition.log_end_offset();
        if self.brokers[broker].partition.durable_offset() < end {
            self.step(broker, Input::Durable(end));
        }
    }

    pub(super) fn send_fetch(&mut self, broker: usize) {
        let sender = &mut self.brokers[broker];
        let now = at_ms(self.now_ms);
        let may_leave = |fetch: &mut FollowerFetch| {
            fetch.not_before <= now && !sender.in_flight.contains(&fetch.leader)
        };
        if let Some(fetch) = sender.next_fetch.take_if(may_leave) {
            sender.in_flight.push(fetch.leader);
            self.messages.push(Message::Fetch { from: sender.id, life: sender.life, fetch });
        }
    }

    pub(super) fn read_change(&mut self, broker: usize) {
        if let Some(change) = self.brokers[broker].changes.pop_front() {
            self.step(broker, Input::Peers(change.peers));
            self.step(broker, Input::Metadata(change.partition));
        }
    }

    pub(super) fn tick(&mut self, broker: usize) {
        let due = self.brokers[broker].partition.deadline();
        if self.brokers[broker].alive && due.is_some_and(|at| at <= at_ms(self.now_ms)) {
            self.step(broker, Input::Tick);
            let next = self.brokers[broker].partition.deadline();
            assert!(next > Some(at_ms(self.now_ms)), "the shell would spin");
        }
    }

    fn kill(&mut self, broker: usize) {
        if !self.brokers[broker].alive {
            return;
        }
        self.count_isr_changes(broker);
        self.brokers[broker].kill(&mut self.random);
        for cut_off in std::mem::take(&mut self.brokers[broker].unanswered) {
            self.fail_fetch(cut_off.from, cut_off.life, cut_off.fetch);
        }
        if self.random.percent(70) {
            self.controller.fence(BROKERS[broker]);
            self.publish();
        }
    }

    /// Restarts a dead broker, or lets a fenced one back in.
    pub(super) fn revive(&mut self, broker: usize) {
        let id = BROKERS[broker];
        if !self.brokers[broker].alive {
            let life = self.controller.register(id);
            self.brokers[broker].restart(life, self.settings, &mut self.random);
            self.publish();
        } else if self.controller.is_fenced(id) {
            self.controller.unfence(id);
            self.publish();
        }
    }

    fn publish(&mut self) {
        let change = self.controller.change();
        for broker in self.brokers.iter_mut().filter(|broker| broker.alive) {
            broker.changes.push_back(change.clone());
        }
    }

    pub(super) fn deliver(&mut self, message: Message) {
        match message {
            Message::Fetch { from, life, fetch } => self.serve_fetch(from, life, fetch, true),
            Message::Acknowledge { from, life, fetch } => {
                self.serve_fetch(from, life, fetch, false);
            }
            Message::Answer { to, life, fetch, result } => {
                self.take_answer(to, life, fetch, result);
            }
            Message::Alter { from, life, proposal } => {
                let result = self.controller.alter_partition((from, life), &proposal);
                if let Some(result) = result {
                    self.publish();
                    self.messages.push(Message::Altered { to: from, life, proposal, result });
                }
            }
            Message::Altered { to, life, proposal, result } => {
                if self.lives(to, life) {
                    self.step(
                        index(to),
                        match result {
                            Ok(committed) => Input::IsrCommitted { proposal, committed },
                            Err(error) => Input::IsrRefused { proposal, error },
                        },
                    );
                }
            }
        }
    }

    /// A connection breaks. A fetch fails at its sender; AlterPartition is sent again.
    fn lose(&mut self, message: Message) {
        match message {
            Message::Fetch { from, life, fetch } => self.fail_fetch(from, life, fetch),
            Message::Answer { to, life, fetch, .. } => self.fail_fetch(to, life, fetch),
            Message::Acknowledge { .. } => {}
            Message::Alter { .. } => self.messages.push(message),
            Message::Altered { to, life, proposal, .. } => {
                self.messages.push(Message::Alter { from: to, life, proposal });
            }
        }
    }

    fn fail_fetch(&mut self, to: BrokerId, life: BrokerEpoch, fetch: FollowerFetch) {
        let result = Err(ErrorCode::NetworkException);
        self.messages.push(Message::Answer { to, life, fetch, result });
    }

    fn serve_fetch(
        &mut self,
        from: BrokerId,
        life: BrokerEpoch,
        fetch: FollowerFetch,
        wants_records: bool,
    ) {
        let leader = index(fetch.leader);
        match (self.brokers[leader].alive, wants_records) {
            (false, true) => return self.fail_fetch(from, life, fetch),
            (false, false) => return,
            (true, _) => {}
        }
        let request = self.request();
        if wants_records {
            self.brokers[leader].unanswered.push(FetchRequest { request, from, life, fetch });
        }
        let input = Input::Fetch {
            request,
            fetch: Fetch {
                fetcher: Fetcher::Follower {
                    id: from,
                    epoch: Some(life),
                    log_start_offset: fetch.log_start_offset,
                },
                offset: fetch.offset,
                current_leader_epoch: Some(fetch.leader_epoch),
                last_fetched_epoch: fetch.last_fetched_epoch,
                durable_offset: fetch.durable_offset,
                wants_records,
            },
            deadline: at_ms(self.now_ms + 40),
        };
        self.step(leader, input);
    }

    fn take_answer(
        &mut self,
        to: BrokerId,
        life: BrokerEpoch,
        fetch: FollowerFetch,
        result: Response,
    ) {
        if !self.lives(to, life) {
            return;
        }
        let broker = &mut self.brokers[index(to)];
        broker.in_flight.retain(|&leader| leader != fetch.leader);
        let input = match result {
            Err(error) => Input::FetchFailed { request_leader_epoch: fetch.leader_epoch, error },
            Ok((answer, records)) => {
                let batches = spans(&records);
                broker.fetched = records;
                Input::FetchedFromLeader {
                    request_offset: fetch.offset,
                    request_leader_epoch: fetch.leader_epoch,
                    batches,
                    high_watermark: answer.high_watermark,
                    log_start_offset: answer.log_start_offset,
                    diverging: answer.diverging,
                }
            }
        };
        self.step(index(to), input);
    }

    fn step(&mut self, broker: usize, input: Input) {
        let now = at_ms(self.now_ms);
        let mut out = std::mem::take(&mut self.out);
        self.brokers[broker].partition.step(now, input, &mut out);
        self.brokers[broker].partition.check_invariants();
        out.drain(..).for_each(|output| self.carry_out(broker, output));
        self.out = out;
        self.check_committed(broker);
    }

    fn carry_out(&mut self, index: usize, output: Output) {
        let broker = &mut self.brokers[index];
        match output {
            Output::Append { request, base_offset, leader_epoch } => {
                broker.append(base_offset, leader_epoch, self.produces[&request].0);
            }
            Output::AnswerProduce { request, result } => {
                let (value, acks) = self.produces.remove(&request).expect("answered once");
                if let (Ok(base), Acks::All) = (result, acks) {
                    self.acknowledged.push((base, value));
                }
            }
            Output::AnswerFetch { request, answer } => self.answer_fetch(index, request, answer),
            Output::ProposeIsr(proposal) => {
                let (from, life) = (broker.id, broker.life);
                self.messages.push(Message::Alter { from, life, proposal });
            }
            Output::AppendFetched { count } => broker.append_fetched(count),
            Output::Truncate { to } => {
                let to = usize::try_from(to.0).unwrap();
                self.truncations += u64::from(to < broker.log.len());
                broker.log.truncate(to);
            }
            Output::FetchFromLeader(fetch) => broker.next_fetch = Some(fetch),
            Output::Acknowledge(fetch) => match &mut broker.next_fetch {
                Some(unsent) => unsent.durable_offset = fetch.durable_offset,
                None => {
                    self.acknowledgements += 1;
                    let (from, life) = (broker.id, broker.life);
                    self.messages.push(Message::Acknowledge { from, life, fetch });
                }
            },
            Output::Restart { .. } | Output::AskLeaderOffsets => {
                panic!("{output:?} although every election was clean");
            }
            Output::HighWatermark(_) | Output::Ignored(_) => {}
        }
    }

    fn answer_fetch(&mut self, leader: usize, request: RequestId, answer: FetchAnswer) {
        let broker = &mut self.brokers[leader];
        let position = broker.unanswered.iter().position(|asked| asked.request == request);
        let Some(position) = position else {
            assert!(answer.offset == answer.until, "an acknowledgement asks for nothing");
            return;
        };
        let asked = broker.unanswered.swap_remove(position);
        let result = match answer.error {
            ErrorCode::None => Ok((answer, broker.read(&answer, &mut self.random))),
            error => Err(error),
        };
        let FetchRequest { from: to, life, fetch, .. } = asked;
        self.messages.push(Message::Answer { to, life, fetch, result });
    }

    /// A machine's counters end with its life.
    fn count_isr_changes(&mut self, broker: usize) {
        let IsrCounters { expands, shrinks, failed_updates } =
            self.brokers[broker].partition.isr_counters();
        self.counters.expands += expands;
        self.counters.shrinks += shrinks;
        self.counters.failed_updates += failed_updates;
    }

    fn lives(&self, id: BrokerId, life: BrokerEpoch) -> bool {
        let broker = &self.brokers[index(id)];
        broker.alive && broker.life == life
    }

    fn request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }
}

fn index(id: BrokerId) -> usize {
    BROKERS.iter().position(|&known| known == id).expect("a known broker")
}
