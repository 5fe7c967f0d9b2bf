//! Reads the one-line files of /proc and /sys. A file that is absent, unreadable or odd gives
//! `None`, which reports print as `unknown`: a missing fact is never left out and never fatal.

use std::path::Path;

use serde_json::Value;

/// What a report prints for a fact this host does not tell.
pub(super) const UNKNOWN: &str = "unknown";

/// The file's text without surrounding white space.
pub(super) fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The file's text as a number.
pub(super) fn read_number(path: impl AsRef<Path>) -> Option<u64> {
    read(path)?.parse().ok()
}

/// The file's text as a flag: `0` or `1`.
pub(super) fn read_flag(path: impl AsRef<Path>) -> Option<bool> {
    match read(path)?.as_str() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// The JSON of a fact: its value, or the word `unknown`.
pub(super) fn json<T: Into<Value>>(fact: Option<T>) -> Value {
    fact.map_or_else(|| Value::from(UNKNOWN), Into::into)
}

/// A fact for a person: its value, or the word `unknown`.
pub(super) fn shown<T: ToString>(fact: Option<T>) -> String {
    fact.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string())
}

/// The chosen word of a list such as `none [mq-deadline] kyber`; the whole text if it is one word.
pub(super) fn chosen(text: &str) -> Option<&str> {
    let between = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    match between {
        Some((word, _)) => Some(word),
        None => (!text.is_empty() && !text.contains(char::is_whitespace)).then_some(text),
    }
}

/// The value of `key` in lines of `key : value` or `key: value`.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// How many numbers a list such as `0-3,8` holds.
pub(super) fn list_count(list: &str) -> Option<usize> {
    list.split(',').map(range_count).sum()
}

fn range_count(range: &str) -> Option<usize> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then(|| last - first + 1)
}
