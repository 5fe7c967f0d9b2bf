//! Topics a page at a time, as DescribeTopicPartitions asks for them: which partitions are on the
//! page, and where the next one begins. A page is of one state; two pages may be of two.
//!
//! Source: spec/kip966.md 2.12, DescribeTopicPartitions.

use std::collections::BTreeSet;

use super::cluster::{ClusterMetadata, TopicMetadata};
use super::registration::PartitionRegistration;
use crate::types::{ErrorCode, PartitionId};

/// Most partitions on one page, whatever is asked for (`max.request.partition.size.limit`).
pub const PAGE_PARTITIONS_MAX: usize = 2000;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// Names of topics; none means all.
    pub topics: &'a [String],
    /// Topic and partition to begin with; the partition as it came.
    pub cursor: Option<(&'a str, i32)>,
    /// Most partitions wanted; at least one is given.
    pub partitions_max: i32,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page<'a> {
    /// Topics by name. `None` is a topic that was asked for and does not exist.
    pub topics: Vec<(String, Option<PageTopic<'a>>)>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<(String, PartitionId)>,
}

/// A topic, with those of its partitions that are on the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTopic<'a> {
    /// The topic.
    pub topic: &'a TopicMetadata,
    /// Its partitions on this page, by index.
    pub partitions: Vec<(PartitionId, &'a PartitionRegistration)>,
}

impl ClusterMetadata {
    /// The page that `request` asks for.
    ///
    /// # Errors
    /// `InvalidRequest`: the cursor names a topic that is not asked for, or a negative partition.
    pub fn page(&self, request: &PageRequest<'_>) -> Result<Page<'_>, ErrorCode> {
        let names: BTreeSet<&str> = if request.topics.is_empty() {
            self.topics().map(|topic| topic.name.as_str()).collect()
        } else {
            request.topics.iter().map(String::as_str).collect()
        };
        let (first, index) = request.cursor.unwrap_or(("", 0));
        let is_foreign = !request.topics.is_empty() && !names.contains(first);
        if request.cursor.is_some() && (is_foreign || index < 0) {
            return Err(ErrorCode::InvalidRequest);
        }
        let wanted = usize::try_from(request.partitions_max).unwrap_or(0);
        let mut room = wanted.clamp(1, PAGE_PARTITIONS_MAX);
        let mut page = Page::default();
        for name in names.range(first..) {
            let from = PartitionId(if *name == first { index } else { 0 });
            if room == 0 {
                page.next = Some(((*name).to_owned(), from));
                break;
            }
            let topic = self.topic_id(name).and_then(|id| self.topic(id));
            let mut rest = topic.into_iter().flat_map(|topic| topic.partitions.range(from..));
            let partitions: Vec<_> =
                rest.by_ref().take(room).map(|(&id, known)| (id, known)).collect();
            room -= partitions.len();
            page.next = rest.next().map(|(&id, _)| ((*name).to_owned(), id));
            let found = topic.map(|topic| PageTopic { topic, partitions });
            page.topics.push(((*name).to_owned(), found));
            if page.next.is_some() {
                break;
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::metadata::{Partition, Record};
    use crate::types::{LeaderEpoch, PartitionEpoch, TopicId, TopicPartition};

    /// Topics of as many partitions.
    fn cluster(topics: &[(&str, i32)]) -> ClusterMetadata {
        let mut metadata = ClusterMetadata::default();
        let mut apply = |record: &Record| {
            let end = metadata.end_offset();
            metadata.apply(end, record).unwrap();
        };
        for (id, (name, partitions)) in (1..).zip(topics) {
            let topic = TopicId([id; 16]);
            apply(&Record::Topic { name: (*name).to_owned(), id: topic });
            for partition in (0..*partitions).map(PartitionId) {
                apply(&Record::Partition(Partition {
                    id: TopicPartition { topic, partition },
                    replicas: vec![],
                    isr: vec![],
                    elr: vec![],
                    last_known_elr: vec![],
                    removing: vec![],
                    adding: vec![],
                    leader: None,
                    recovering: false,
                    leader_epoch: LeaderEpoch(0),
                    partition_epoch: PartitionEpoch(0),
                    directories: vec![],
                }));
            }
        }
        metadata
    }

    /// `a:0,1 b:- >c:2`: topics with their partitions, `-` for an unknown topic, `>` the next page.
    fn shown(page: &Page<'_>) -> String {
        let topic = |(name, found): &(String, Option<PageTopic<'_>>)| match found {
            None => format!("{name}:-"),
            Some(found) => {
                let ids: Vec<String> =
                    found.partitions.iter().map(|(id, _)| id.to_string()).collect();
                format!("{name}:{}", ids.join(","))
            }
        };
        let next = page.next.iter().map(|(name, id)| format!(">{name}:{id}"));
        page.topics.iter().map(topic).chain(next).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_page_holds_what_was_asked_for_and_names_the_next() {
        let metadata = cluster(&[("c", 3), ("a", 2), ("b", 1)]);
        type Case<'a> = (&'a [&'a str], Option<(&'a str, i32)>, i32, &'a str);
        let cases: [Case<'_>; 15] = [
            (&[], None, 100, "a:0,1 b:0 c:0,1,2"),
            (&[], None, 1, "a:0 >a:1"),
            (&[], None, 2, "a:0,1 >b:0"),
            (&[], None, 4, "a:0,1 b:0 c:0 >c:1"),
            (&[], Some(("a", 1)), 2, "a:1 b:0 >c:0"),
            (&[], Some(("c", 1)), 100, "c:1,2"),
            (&[], Some(("aa", 1)), 100, "b:0 c:0,1,2"),
            (&[], Some(("c", 9)), 100, "c:"),
            (&[], None, 0, "a:0 >a:1"),
            (&[], None, -5, "a:0 >a:1"),
            (&["c", "a", "c"], None, 100, "a:0,1 c:0,1,2"),
            (&["c", "a"], Some(("c", 2)), 100, "c:2"),
            (&["a", "x", "b"], None, 100, "a:0,1 b:0 x:-"),
            (&["a", "aa"], None, 2, "a:0,1 >aa:0"),
            (&["aa", "c"], Some(("aa", 0)), 1, "aa:- c:0 >c:1"),
        ];
        for (topics, cursor, partitions_max, expected) in cases {
            let topics: Vec<String> = topics.iter().map(|&name| name.to_owned()).collect();
            let request = PageRequest { topics: &topics, cursor, partitions_max };
            assert_eq!(shown(&metadata.page(&request).unwrap()), expected, "{request:?}");
        }
    }

    #[test]
    fn a_cursor_that_makes_no_sense_is_refused() {
        let metadata = cluster(&[("a", 2)]);
        let all: [String; 0] = [];
        let one = ["a".to_owned()];
        for (topics, cursor) in [(&all[..], ("a", -1)), (&one, ("a", -1)), (&one, ("b", 0))] {
            let request = PageRequest { topics, cursor: Some(cursor), partitions_max: 10 };
            assert_eq!(metadata.page(&request), Err(ErrorCode::InvalidRequest), "{request:?}");
        }
    }

    #[test]
    fn the_pages_add_up_to_all_and_none_is_larger_than_the_servers_limit() {
        let metadata = cluster(&[("a", 1500), ("b", 1200), ("c", 0), ("d", 1)]);
        let (mut cursor, mut sizes, mut seen) = (None::<(String, PartitionId)>, Vec::new(), 0);
        loop {
            let request = PageRequest {
                topics: &[],
                cursor: cursor.as_ref().map(|(name, id)| (name.as_str(), id.0)),
                partitions_max: i32::MAX,
            };
            let page = metadata.page(&request).unwrap();
            let found = page.topics.iter().filter_map(|(_, found)| found.as_ref());
            let size: usize = found.map(|found| found.partitions.len()).sum();
            sizes.push(size);
            seen += size;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!((sizes, seen), (vec![PAGE_PARTITIONS_MAX, 701], 2701));
    }
}
