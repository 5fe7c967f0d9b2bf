//! What an API's file says of it: its key, its versions, and which listener serves it.

use std::fmt;

use super::ApiKey;

/// An inclusive range of versions of one API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VersionRange {
    /// First version.
    pub min: i16,
    /// Last version.
    pub max: i16,
}

impl VersionRange {
    /// Whether `version` lies in it.
    pub fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

/// The two kinds of port a cluster listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listener {
    /// Clients and followers.
    Broker,
    /// Brokers, and the tools that create topics.
    Controller,
}

/// Which listeners serve an API.
#[derive(Clone, Copy, Debug)]
pub(super) enum Served {
    Broker,
    Controller,
    Both,
    /// A broker every version, the controller from this one on.
    ControllerFrom(i16),
}

/// One API, as its file describes it. Ranges: spec/kafka-wire.md 1.2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) code: i16,
    codec: VersionRange,
    flexible_from: i16,
    served: Served,
    advertised_from: i16,
    has_plain_response_header: bool,
}

/// The versions from `min` to `max`.
pub(super) const fn versions(min: i16, max: i16) -> VersionRange {
    VersionRange { min, max }
}

impl Spec {
    /// An API with this key, whose versions `codec` can be encoded and decoded, with compact
    /// lengths and tagged fields from `flexible_from` on.
    pub(super) const fn new(
        code: i16,
        codec: VersionRange,
        flexible_from: i16,
        served: Served,
    ) -> Spec {
        let advertised_from = codec.min;
        Spec {
            code,
            codec,
            flexible_from,
            served,
            advertised_from,
            has_plain_response_header: false,
        }
    }

    /// Listed in ApiVersions from this version on, though older ones are refused.
    pub(super) const fn advertised_from(self, advertised_from: i16) -> Spec {
        Spec { advertised_from, ..self }
    }

    /// Its response header never has tagged fields.
    pub(super) const fn with_plain_response_header(self) -> Spec {
        Spec { has_plain_response_header: true, ..self }
    }
}

impl ApiKey {
    /// From the key on the wire.
    pub fn from_code(code: i16) -> Option<ApiKey> {
        ApiKey::ALL.iter().copied().find(|api| api.code() == code)
    }

    /// The key on the wire.
    pub fn code(self) -> i16 {
        self.spec().code
    }

    /// The versions this room can encode and decode.
    pub fn codec_range(self) -> VersionRange {
        self.spec().codec
    }

    /// The versions `listener` serves; `None` if it does not serve the API at all.
    pub fn served_range(self, listener: Listener) -> Option<VersionRange> {
        let all = self.codec_range();
        match (self.spec().served, listener) {
            (Served::Both, _)
            | (Served::Broker | Served::ControllerFrom(_), Listener::Broker)
            | (Served::Controller, Listener::Controller) => Some(all),
            (Served::ControllerFrom(min), Listener::Controller) => {
                Some(VersionRange { min, ..all })
            }
            (Served::Broker, Listener::Controller) | (Served::Controller, Listener::Broker) => None,
        }
    }

    /// The versions `listener` lists in ApiVersions.
    pub fn advertised_range(self, listener: Listener) -> Option<VersionRange> {
        let served = self.served_range(listener)?;
        // Only where all that can be decoded is served does a file say that more is listed.
        let is_whole = served == self.codec_range();
        let min = if is_whole { self.spec().advertised_from } else { served.min };
        Some(VersionRange { min, max: served.max })
    }

    /// Whether `version` has compact lengths and tagged fields.
    pub fn is_flexible(self, version: i16) -> bool {
        version >= self.spec().flexible_from
    }

    /// Whether the response header has tagged fields.
    pub(super) fn has_flexible_response_header(self, version: i16) -> bool {
        !self.spec().has_plain_response_header && self.is_flexible(version)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
