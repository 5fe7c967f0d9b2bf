//! What becomes of a message: which links are cut, and the delays, losses and late copies of the
//! rest. Messages overtake each other whenever a later one draws a shorter delay.

use std::collections::BTreeSet;
use std::time::Duration;

use super::message::{Address, Envelope, Message};
use super::options::NetworkOptions;
use super::random::Random;

/// The network.
#[derive(Debug)]
pub struct Network {
    options: NetworkOptions,
    cut: BTreeSet<(Address, Address)>,
}

impl Network {
    /// A network without cuts.
    pub fn new(options: NetworkOptions) -> Network {
        Network { options, cut: BTreeSet::new() }
    }

    /// Nothing gets from `from` to `to` any more.
    pub fn cut(&mut self, from: Address, to: Address) {
        self.cut.insert((from, to));
    }

    /// What is sent from `from` to `to` arrives again.
    pub fn mend(&mut self, from: Address, to: Address) {
        self.cut.remove(&(from, to));
    }

    /// Nothing is cut, slow, lost or copied from now on.
    pub fn calm(&mut self) {
        self.cut.clear();
        let delay_max = self.options.delay_max.min(Duration::from_millis(2));
        self.options = NetworkOptions {
            delay_max,
            slow_delay_max: delay_max,
            slow_per_mille: 0,
            loss_per_mille: 0,
            copy_per_mille: 0,
        };
    }

    /// After which delays the message arrives: never, once, or twice.
    pub fn send(&self, random: &mut Random, envelope: &Envelope) -> Vec<Duration> {
        let options = &self.options;
        if self.cut.contains(&(envelope.from, envelope.to)) || random.chance(options.loss_per_mille)
        {
            return Vec::new();
        }
        let is_slow = random.chance(options.slow_per_mille);
        let delay_max = if is_slow { options.slow_delay_max } else { options.delay_max };
        let mut delays = vec![random.between(Duration::from_micros(50), delay_max)];
        // TCP does not deliver twice; a fetch sent again over a new connection comes to the same.
        let is_idempotent = matches!(envelope.message, Message::Fetch { .. });
        if is_idempotent && random.chance(options.copy_per_mille) {
            delays.push(random.between(options.delay_max, options.slow_delay_max));
        }
        delays
    }
}
