//! Bytes on disk: the partition log.
