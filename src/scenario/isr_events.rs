//! What the brokers of a cluster told of their ISRs, read from their files once they have stopped.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::measure::isr::IsrEvent;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct IsrEvents {
    /// By topic, in the order of their ends.
    by_topic: BTreeMap<String, Vec<IsrEvent>>,
    /// What could not be read.
    pub(super) complaints: Vec<String>,
}

impl IsrEvents {
    /// Reads all of `files`. One that is not there told nothing.
    pub(super) fn read<'a>(files: impl IntoIterator<Item = &'a Path>) -> IsrEvents {
        let mut events = IsrEvents::default();
        for file in files {
            match fs::read(file) {
                Ok(bytes) => events.add(file, &bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => events.complaints.push(format!("{}: {error}", file.display())),
            }
        }
        for list in events.by_topic.values_mut() {
            list.sort_by_key(IsrEvent::ended_ns);
        }
        events
    }

    fn add(&mut self, file: &Path, bytes: &[u8]) {
        let mut unreadable = 0;
        // Bytes, not text: one that is not UTF-8 damages its own line only.
        let lines = bytes.split(|&byte| byte == b'\n');
        for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
            match serde_json::from_slice::<IsrEvent>(line) {
                Ok(event) => self.by_topic.entry(event.topic.clone()).or_default().push(event),
                Err(_) => unreadable += 1,
            }
        }
        if unreadable > 0 {
            self.complaints.push(format!("{}: {unreadable} damaged lines", file.display()));
        }
    }

    /// Takes out those of one topic.
    pub(super) fn take(&mut self, topic: &str) -> Vec<IsrEvent> {
        self.by_topic.remove(topic).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_several_brokers_are_put_in_order_and_damaged_lines_are_told() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let line = |topic: &str, until: u64| {
            format!(
                "{{\"topic\":\"{topic}\",\"partition\":0,\"broker\":1,\"leader_epoch\":0,\
                 \"event\":\"under_min_isr\",\"since_ns\":1,\"until_ns\":{until}}}\n"
            )
        };
        let mut broken = line("v", 1).into_bytes();
        broken[3] = 0xff;
        broken.extend(line("u", 6).bytes());
        let files = ["a", "b", "c", "none"].map(|name| folder.path().join(name));
        fs::write(&files[0], line("t", 30) + &line("u", 5)).expect("a writable folder");
        fs::write(&files[1], line("t", 20) + &line("t", 40) + "{\"topic\":").expect("writable");
        fs::write(&files[2], broken).expect("a writable folder");
        let mut events = IsrEvents::read(files.iter().map(|file| file.as_path()));
        let ends: Vec<u64> = events.take("t").iter().map(IsrEvent::ended_ns).collect();
        assert_eq!(ends, [20, 30, 40]);
        assert_eq!(events.take("u").len(), 2, "one after a line that is no text");
        assert!(events.take("t").is_empty());
        let told = &events.complaints[..];
        let [b, c] = told else { panic!("{told:?}") };
        assert!(b.ends_with("b: 1 damaged lines") && c.ends_with("c: 1 damaged lines"), "{told:?}");
    }
}
