//! Answers leave a connection in the order their requests came, whenever they become ready.
//!
//! Requests on one connection are worked on side by side (appends are pipelined); only the answers
//! queue up (spec/kafka-wire.md 1.4 item 6).

use std::collections::VecDeque;

use bytes::Bytes;

/// A request's place in its connection's order of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(u64);

/// One answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A frame as pieces: the first carries the response header.
    Frame(Vec<Bytes>),
    /// `acks=0`: the request takes a turn but says nothing.
    Silence,
}

/// The answers one connection owes.
#[derive(Debug, Default)]
pub(super) struct Answers {
    first: u64,
    owed: VecDeque<Option<Answer>>,
}

impl Answers {
    /// Takes the next turn for a request that just arrived.
    pub(super) fn take_turn(&mut self) -> Turn {
        self.owed.push_back(None);
        Turn(self.first + self.owed.len() as u64 - 1)
    }

    /// Notes an answer; [`Answers::next`] gives it when its turn has come.
    pub(super) fn ready(&mut self, turn: Turn, answer: Answer) {
        let index = turn.0.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(slot) = index.and_then(|index| self.owed.get_mut(index)) {
            *slot = Some(answer);
        }
    }

    /// The next answer that may leave now.
    pub(super) fn next(&mut self) -> Option<Answer> {
        if self.owed.front()?.is_none() {
            return None;
        }
        self.first += 1;
        self.owed.pop_front().flatten()
    }

    /// Requests without an answer yet, or with one that waits for an earlier one.
    pub(super) fn owed(&self) -> usize {
        self.owed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &'static str) -> Answer {
        Answer::Frame(vec![Bytes::from_static(text.as_bytes())])
    }

    #[test]
    fn answers_leave_in_the_order_of_their_requests() {
        let mut answers = Answers::default();
        let (first, second, third) =
            (answers.take_turn(), answers.take_turn(), answers.take_turn());
        answers.ready(third, frame("third"));
        answers.ready(second, Answer::Silence);
        assert_eq!(answers.next(), None, "the first request is not answered yet");
        answers.ready(first, frame("first"));
        assert_eq!(answers.next(), Some(frame("first")));
        assert_eq!(answers.next(), Some(Answer::Silence));
        assert_eq!(answers.next(), Some(frame("third")));
        assert_eq!((answers.next(), answers.owed()), (None, 0));
    }
}
