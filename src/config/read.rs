//! What was typed: TOML text with the place of every value, and errors that point at it.
//!
//! Serde fills raw structs of [`Field`]s and [`List`]s; nothing here knows which keys exist or what
//! they mean.

use std::fmt;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::{self, DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::units::{self, Scalar};

/// A key that may be left out.
pub(super) type Field = Option<Spanned<Scalar>>;

/// A key that may be left out and holds several values.
pub(super) type List = Option<Spanned<Vec<Spanned<Scalar>>>>;

/// Why a configuration file was refused. The text names the file, the place, the key, the value and
/// what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The text is not TOML, or a key does not exist.
    #[error("{file}:{line}:{column}: {problem}")]
    Text {
        /// The file as it was named.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong and what is allowed.
        problem: String,
    },
    /// A value that was written is not allowed.
    #[error("{file}:{line}:{column}: {key} = {value}: {problem}")]
    Value {
        /// The file as it was named.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The key's path.
        key: String,
        /// The value as written.
        value: String,
        /// What is allowed.
        problem: String,
    },
    /// A value that was not written is needed.
    #[error("{file}:{line}:{column}: {key}: {problem}")]
    Absent {
        /// The file as it was named.
        file: String,
        /// Line, from 1, of the table that lacks it.
        line: usize,
        /// Column in characters, from 1, of that table's name.
        column: usize,
        /// The key's path.
        key: String,
        /// What is needed.
        problem: String,
    },
    /// A configuration cannot be written as TOML.
    #[error("{key} = {value}: {problem}")]
    Unwritable {
        /// The key's path.
        key: String,
        /// The value.
        value: String,
        /// Why not.
        problem: String,
    },
}

/// The text of a configuration file.
///
/// # Errors
/// [`ConfigError`]: it cannot be read, or is not UTF-8.
pub(super) fn text_of(file: &Path) -> Result<String, ConfigError> {
    let bytes = std::fs::read(file)
        .map_err(|source| ConfigError::Read { file: file.to_owned(), source })?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let good = String::from_utf8_lossy(&error.as_bytes()[..good]).into_owned();
        let (line, column) = Source::new(file, &good).place(good.len());
        let problem = "a byte that is not UTF-8, which TOML is written in".to_owned();
        ConfigError::Text { file: file.display().to_string(), line, column, problem }
    })
}

/// One file's text, for reading values and for pointing at them.
pub(super) struct Source<'a> {
    file: &'a Path,
    text: &'a str,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Source<'a> {
        Source { file, text }
    }

    /// The raw struct; an unknown key or a table where a value belongs is refused here.
    pub(super) fn raw<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml::from_str(self.text).map_err(|error| self.text_error(&error))
    }

    /// The meaning of `field`, or `default` if it was left out.
    pub(super) fn or<T>(
        &self,
        key: &str,
        field: &Field,
        default: T,
        meaning: impl Fn(&Scalar) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        match field {
            Some(value) => self.meaning(key, value, meaning),
            None => Ok(default),
        }
    }

    /// A whole number within `range`.
    pub(super) fn count(
        &self,
        key: &str,
        field: &Field,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<usize, ConfigError> {
        self.or(key, field, default, units::count(range)).map(whole)
    }

    /// Bytes within `range`.
    pub(super) fn bytes(
        &self,
        key: &str,
        field: &Field,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, ConfigError> {
        self.or(key, field, default, units::size_in(range))
    }

    /// A duration above zero.
    pub(super) fn duration(
        &self,
        key: &str,
        field: &Field,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        self.or(key, field, default, units::duration_above_zero)
    }

    /// The meaning of a key that must be there.
    pub(super) fn needed<T>(
        &self,
        key: &str,
        field: &Field,
        meaning: impl Fn(&Scalar) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        let start = if field.is_none() { self.table_start(key) } else { 0 };
        self.needed_in(start, key, field, meaning)
    }

    /// As [`Source::needed`], of the table that begins at `start`: one of several of a name.
    pub(super) fn needed_in<T>(
        &self,
        start: usize,
        key: &str,
        field: &Field,
        meaning: impl Fn(&Scalar) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        match field {
            Some(value) => self.meaning(key, value, meaning),
            None => Err(self.absent_from(start, key, "this key is needed".to_owned())),
        }
    }

    /// The meanings of a list's values, or `default`. An empty list and a repeated value are refused.
    pub(super) fn list_or<T: PartialEq>(
        &self,
        key: &str,
        list: &List,
        default: Vec<T>,
        meaning: impl Fn(&Scalar) -> Result<T, String>,
    ) -> Result<Vec<T>, ConfigError> {
        let Some(values) = list else { return Ok(default) };
        if values.get_ref().is_empty() {
            let problem = "must list at least one value, or be left out for the default";
            return Err(self.refused(key, values.span(), "[]", problem));
        }
        let mut meanings: Vec<T> = Vec::new();
        for value in values.get_ref() {
            let meant = self.meaning(key, value, &meaning)?;
            if meanings.contains(&meant) {
                return Err(self.refused(key, value.span(), value.get_ref(), "is listed twice"));
            }
            meanings.push(meant);
        }
        Ok(meanings)
    }

    /// An error about the value of `key`, written at `span`.
    pub(super) fn refused(
        &self,
        key: &str,
        span: Range<usize>,
        value: impl fmt::Display,
        problem: impl Into<String>,
    ) -> ConfigError {
        let (line, column) = self.place(span.start);
        ConfigError::Value {
            file: self.file.display().to_string(),
            line,
            column,
            key: key.to_owned(),
            value: value.to_string(),
            problem: problem.into(),
        }
    }

    /// As [`Source::refused`] for a value that clashes with that of the key `other`: points at
    /// `field` if it was written, else says at `other` that `value` is the default.
    pub(super) fn clash(
        &self,
        (key, field): (&str, &Field),
        value: impl fmt::Display,
        problem: impl fmt::Display,
        (other_key, other): (&str, &Field),
    ) -> ConfigError {
        match (field, other) {
            (Some(own), _) => self.refused(key, own.span(), own.get_ref(), problem.to_string()),
            (None, Some(other)) => {
                let problem = format!("{key}, by default {value}, {problem}");
                self.refused(other_key, other.span(), other.get_ref(), problem)
            }
            // Two defaults never clash.
            (None, None) => self.absent(key, format!("the default {value} {problem}")),
        }
    }

    /// An error about a key that was left out of a table.
    pub(super) fn absent(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        self.absent_from(self.table_start(key), key, problem.into())
    }

    fn absent_from(&self, start: usize, key: &str, problem: String) -> ConfigError {
        let (line, column) = self.place(start);
        let (file, key) = (self.file.display().to_string(), key.to_owned());
        ConfigError::Absent { file, line, column, key, problem }
    }

    /// Where the innermost written table on the path of `key` begins; the file's begin if there is
    /// none.
    fn table_start(&self, key: &str) -> usize {
        let Ok(document) = DeTable::parse(self.text) else { return 0 };
        let (mut table, mut start) = (document.get_ref(), 0);
        for name in key.split('.') {
            let Some((name, value)) = table.get_key_value(name) else { break };
            let DeValue::Table(inner) = value.get_ref() else { break };
            (table, start) = (inner, name.span().start);
        }
        start
    }

    fn meaning<T>(
        &self,
        key: &str,
        value: &Spanned<Scalar>,
        meaning: impl Fn(&Scalar) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        meaning(value.get_ref())
            .map_err(|problem| self.refused(key, value.span(), value.get_ref(), problem))
    }

    fn text_error(&self, error: &toml::de::Error) -> ConfigError {
        let start = error.span().map_or(0, |span| span.start);
        let (line, column) = self.place(start);
        let problem = match self.key_at(start) {
            Some(key) => format!("{key}: {}", for_people(error.message())),
            None => for_people(error.message()),
        };
        ConfigError::Text { file: self.file.display().to_string(), line, column, problem }
    }

    /// Line and column, both from 1, of a byte position.
    fn place(&self, position: usize) -> (usize, usize) {
        let before = self.text.get(..position).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// The path of the key whose entry covers `position`, if the text is TOML at all.
    fn key_at(&self, position: usize) -> Option<String> {
        let document = DeTable::parse(self.text).ok()?;
        key_in(document.get_ref(), position)
    }
}

/// A checked number as `usize`: every range of [`Source::count`] fits on a 64-bit machine.
pub(super) fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn key_in(table: &DeTable<'_>, position: usize) -> Option<String> {
    for (key, value) in table.iter() {
        let name: &str = key.get_ref();
        if let DeValue::Table(inner) = value.get_ref()
            && let Some(path) = key_in(inner, position)
        {
            return Some(format!("{name}.{path}"));
        }
        if key.span().contains(&position) || value.span().contains(&position) {
            return Some(name.to_owned());
        }
    }
    None
}

/// The parser's sentence in a user's words.
fn for_people(message: &str) -> String {
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let allowed = rest.split_once("expected").map_or("", |(_, names)| names);
        let allowed = allowed.trim_start_matches(" one of").trim();
        let allowed = allowed.replace('`', "").replace(" or ", ", ");
        return format!("no such key; allowed here: {allowed}");
    }
    let kinds =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "));
    match kinds {
        Some((_, "a sequence")) => "must be a list, such as [1, \"all\"]".to_owned(),
        Some((_, expected)) if expected.starts_with("struct ") => "must be a table".to_owned(),
        Some(("map", expected)) => format!("must be {expected}, not a table"),
        Some(("sequence", expected)) => format!("must be {expected}, not a list"),
        _ => message.trim_end().replace('\n', ", "),
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        struct AnyScalar;
        impl Visitor<'_> for AnyScalar {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a single value")
            }
            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar::Integer(value))
            }
            fn visit_i128<E: de::Error>(self, _: i128) -> Result<Scalar, E> {
                Err(E::custom("must be a whole number of at most 64 bits"))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar::Float(value))
            }
            fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Boolean(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(value.to_owned()))
            }
        }
        deserializer.deserialize_any(AnyScalar)
    }
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Scalar::Integer(value) => serializer.serialize_i64(*value),
            Scalar::Float(value) => serializer.serialize_f64(*value),
            Scalar::Boolean(value) => serializer.serialize_bool(*value),
            Scalar::Text(value) => serializer.serialize_str(value),
        }
    }
}
