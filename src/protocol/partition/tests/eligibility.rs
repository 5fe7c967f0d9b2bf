//! Who may be proposed for the ISR: the life of the broker that fetches must be the life that
//! metadata knows, unfenced and not on its way out. Source: spec/kip966.md 1.3, `eligible`.

use super::*;

/// What metadata says of broker 2, and the epoch its caught-up fetch carries.
fn proposes_2(registered: Option<i64>, fetching: Option<i64>, fenced: bool, leaving: bool) -> bool {
    let mut machine = Machine::leader(settings(1), &[1, 2], &[1]);
    let peer = Peer {
        id: BrokerId(2),
        epoch: registered.map(BrokerEpoch),
        fenced,
        in_controlled_shutdown: leaving,
    };
    machine.step(Input::Peers(vec![peer]));
    let epoch = fetching.map(BrokerEpoch);
    let fetcher = Fetcher::Follower { id: BrokerId(2), epoch, log_start_offset: Offset::ZERO };
    machine.fetch_as(fetcher, 10, None, None);
    let proposed = machine.last_proposal().map(|proposal| proposal.isr.clone());
    if let Some(isr) = &proposed {
        // Both from one snapshot of the follower, so that the controller can check (KAFKA-15221).
        assert_eq!(isr, &[(LOCAL, Some(broker_epoch(1))), (BrokerId(2), epoch)]);
    }
    proposed.is_some()
}

#[test]
fn only_the_registered_life_of_an_active_broker_is_proposed_for_the_isr() {
    assert!(proposes_2(Some(7), Some(7), false, false));
    assert!(proposes_2(Some(7), None, false, false), "-1 skips the check");
    assert!(!proposes_2(Some(7), Some(6), false, false), "an earlier life");
    assert!(!proposes_2(Some(7), Some(8), false, false), "a life metadata does not know yet");
    assert!(!proposes_2(None, Some(7), false, false), "not registered");
    assert!(!proposes_2(None, None, false, false), "not registered, epoch not given");
    assert!(!proposes_2(Some(7), Some(7), true, false), "fenced");
    assert!(!proposes_2(Some(7), Some(7), false, true), "in controlled shutdown");
}

/// The follower restarts after its last fetch: what the earlier life held makes no candidate of the
/// later one, so that a high watermark does not wait for it either.
#[test]
fn a_high_watermark_does_not_wait_for_a_candidate_of_an_earlier_life() {
    for (known_epoch, expected) in [(102, 10), (202, 15)] {
        let mut machine = Machine::leader(settings(1), &[1, 2, 3], &[1]);
        machine.fetch(3, 10);
        machine.fetch(2, 10);
        let joining = &machine.last_proposal().expect("3 joins").isr;
        assert!(joining.iter().all(|&(id, _)| id != BrokerId(2)), "one change at a time");
        let mut known = peers(&[]);
        for peer in known.iter_mut().filter(|peer| peer.id == BrokerId(2)) {
            peer.epoch = Some(BrokerEpoch(known_epoch));
        }
        machine.step(Input::Peers(known));
        machine.produce(Acks::Leader, 5);
        machine.durable(15);
        machine.fetch(3, 15);
        assert_eq!(machine.high_watermark(), expected, "registered as {known_epoch}");
    }
}
