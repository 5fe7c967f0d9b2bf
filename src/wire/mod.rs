//! Bytes to Kafka messages and back, with every length and count checked first.
