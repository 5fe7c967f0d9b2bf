//! **Pure**: Kafka record batches, version 2.
