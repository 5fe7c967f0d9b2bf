//! Tests of the whole room: it has one way in, bytes.

use bytes::{BufMut, Bytes};
use kafka_protocol::records::{
    Compression as CrateCompression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID,
    NO_SEQUENCE, Record as CrateRecord, RecordBatchDecoder, RecordBatchEncoder,
    RecordEncodeOptions, TimestampType,
};
use proptest::prelude::*;

use super::batch::{
    ATTRIBUTES_AT, BASE_SEQUENCE_AT, BATCH_LENGTH_AT, CRC_AT, LAST_OFFSET_DELTA_AT, MAGIC_AT,
    PRODUCER_ID_AT, RECORD_COUNT_AT,
};
use super::varint::{self, VarintError};
use super::*;
use crate::types::{ErrorCode, LeaderEpoch, Offset};

const NO_LIMIT: usize = usize::MAX;

fn batch_of(values: &[&[u8]]) -> Bytes {
    let mut builder = BatchBuilder::default();
    builder.start(1_700_000_000_000);
    for value in values {
        builder.push(0, None, value);
    }
    builder.finish()
}

/// A batch with one field replaced and the CRC made right again.
fn forged(at: usize, value: &[u8]) -> Vec<u8> {
    let mut batch = batch_of(&[b"one", b"two", b"three"]).to_vec();
    batch[at..at + value.len()].copy_from_slice(value);
    sign(&mut batch);
    batch
}

fn sign(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
    batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
}

/// A batch with good CRC around these record bytes.
fn batch_around(record_count: i32, last_offset_delta: i32, records: &[u8]) -> Vec<u8> {
    let mut batch = batch_of(&[b""])[..HEADER_BYTES].to_vec();
    batch.extend_from_slice(records);
    let length = (batch.len() - 12) as i32;
    batch[BATCH_LENGTH_AT..BATCH_LENGTH_AT + 4].copy_from_slice(&length.to_be_bytes());
    batch[LAST_OFFSET_DELTA_AT..LAST_OFFSET_DELTA_AT + 4]
        .copy_from_slice(&last_offset_delta.to_be_bytes());
    batch[RECORD_COUNT_AT..]
        .first_chunk_mut::<4>()
        .unwrap()
        .copy_from_slice(&record_count.to_be_bytes());
    sign(&mut batch);
    batch
}

fn code(bytes: &[u8]) -> i16 {
    match validate_produced(bytes, NO_LIMIT) {
        Ok(_) => 0,
        Err(error) => error.error_code().code(),
    }
}

#[test]
fn produce_checks_answer_kafkas_codes() {
    let good = batch_of(&[b"one", b"two", b"three"]);
    let two = [&good[..], &good[..]].concat();
    let trailing = [&good[..], &[0; 5]].concat();
    let cases: &[(&str, &[u8], i16)] = &[
        ("good", &good, 0),
        ("nothing", b"", 87),
        ("two batches", &two, 87),
        ("bytes after the batch", &trailing, 2),
        ("shorter than the magic", &good[..10], 2),
        ("shorter than a header", &good[..60], 2),
        ("header alone", &good[..61], 2),
        ("cut in its records", &good[..good.len() - 1], 2),
        ("length too small for a header", &forged(BATCH_LENGTH_AT, &48i32.to_be_bytes()), 2),
        ("length 0", &forged(BATCH_LENGTH_AT, &0i32.to_be_bytes()), 2),
        ("length -1", &forged(BATCH_LENGTH_AT, &(-1i32).to_be_bytes()), 2),
        ("length -2^31", &forged(BATCH_LENGTH_AT, &i32::MIN.to_be_bytes()), 2),
        ("length 2^31-1", &forged(BATCH_LENGTH_AT, &i32::MAX.to_be_bytes()), 2),
        ("magic 0", &forged(MAGIC_AT, &[0]), 87),
        ("magic 1", &forged(MAGIC_AT, &[1]), 87),
        ("magic 3", &forged(MAGIC_AT, &[3]), 87),
        ("magic 127", &forged(MAGIC_AT, &[127]), 87),
        ("old format shorter than a header", &forged(MAGIC_AT, &[1])[..40], 87),
        ("count -1", &forged(RECORD_COUNT_AT, &(-1i32).to_be_bytes()), 87),
        ("count 0", &forged(RECORD_COUNT_AT, &0i32.to_be_bytes()), 87),
        ("count 2^31-1", &forged(RECORD_COUNT_AT, &i32::MAX.to_be_bytes()), 87),
        ("count 2 of 3", &forged(RECORD_COUNT_AT, &2i32.to_be_bytes()), 87),
        ("last offset delta 0", &forged(LAST_OFFSET_DELTA_AT, &0i32.to_be_bytes()), 87),
        ("last offset delta max", &forged(LAST_OFFSET_DELTA_AT, &i32::MAX.to_be_bytes()), 87),
        ("control batch", &forged(ATTRIBUTES_AT, &0x20i16.to_be_bytes()), 87),
        ("compression 5", &forged(ATTRIBUTES_AT, &5i16.to_be_bytes()), 87),
        ("compression 4", &forged(ATTRIBUTES_AT, &4i16.to_be_bytes()), 0),
        ("producer id without sequence", &forged(PRODUCER_ID_AT, &7i64.to_be_bytes()), 87),
        ("sequence -1, no producer id", &forged(BASE_SEQUENCE_AT, &(-1i32).to_be_bytes()), 0),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(code(bytes), *expected, "{name}");
    }
}

/// Report 1: nobody may believe such a count, even where delta and CRC agree with it.
#[test]
fn a_count_that_its_bytes_cannot_hold_is_refused() {
    assert_eq!(code(&batch_around(i32::MAX, i32::MAX - 1, &[0; 700])), 87);
    assert_eq!(code(&batch_around(101, 100, &[0; 700])), 87);
    assert_eq!(code(&batch_around(100, 99, &[0; 700])), 0);
}

#[test]
fn the_compression_bits_name_kafkas_codecs() {
    use Compression::{Gzip, Lz4, None, Snappy, Zstd};
    for (bits, expected) in [None, Gzip, Snappy, Lz4, Zstd].into_iter().enumerate() {
        let batch = forged(ATTRIBUTES_AT, &(bits as i16).to_be_bytes());
        let header = validate_produced(&batch, NO_LIMIT).unwrap();
        assert_eq!(header.compression(), Ok(expected));
    }
}

#[test]
fn a_batch_above_the_limit_is_too_large_even_if_its_crc_is_wrong() {
    let mut batch = batch_of(&[b"value"]).to_vec();
    assert!(validate_produced(&batch, batch.len()).is_ok());
    batch[CRC_AT] ^= 1;
    let error = validate_produced(&batch, batch.len() - 1).unwrap_err();
    assert_eq!(error.error_code(), ErrorCode::MessageTooLarge);
    assert_eq!(error.to_string(), "batch of 73 bytes: at most 72 are allowed");
}

#[test]
fn one_wrong_byte_anywhere_under_the_crc_is_corrupt() {
    let good = batch_of(&[b"one", b"two"]);
    for at in CRC_AT..good.len() {
        let mut batch = good.to_vec();
        batch[at] ^= 0x10;
        assert_eq!(code(&batch), 2, "byte {at}");
    }
}

#[test]
fn stamping_leaves_the_crc_right() {
    let mut batch = batch_of(&[b"one", b"two"]).to_vec();
    let before = parse_batch(&batch).unwrap();
    stamp(&mut batch, Offset(77), LeaderEpoch(5));
    let after = validate_produced(&batch, NO_LIMIT).unwrap();
    assert_eq!(after.end_offset(), Offset(79));
    let expected = BatchHeader { base_offset: Offset(77), leader_epoch: LeaderEpoch(5), ..before };
    assert_eq!(after, expected);
}

#[test]
fn a_built_batch_equals_the_schema_crates() {
    let records = [
        crate_record(0, 1_000, Some("key"), "value"),
        crate_record(1, 1_500, None, ""),
        crate_record(2, 900, Some(""), "x"),
    ];
    let options = RecordEncodeOptions { version: 2, compression: CrateCompression::None };
    let mut expected = bytes::BytesMut::new();
    RecordBatchEncoder::encode(&mut expected, &records, &options).unwrap();

    let mut builder = BatchBuilder::with_capacity(16);
    // The crate takes the smallest timestamp as base.
    builder.start(900);
    builder.push(100, Some(b"key"), b"value");
    builder.push(600, None, b"");
    builder.push(0, Some(b""), b"x");
    assert_eq!(builder.record_count(), 3);
    assert_eq!(builder.size_bytes(), expected.len());
    assert_eq!(builder.finish(), expected);
}

fn crate_record(offset: i64, timestamp: i64, key: Option<&str>, value: &str) -> CrateRecord {
    CrateRecord {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        timestamp_type: TimestampType::Creation,
        offset,
        sequence: NO_SEQUENCE.wrapping_add(offset as i32),
        timestamp,
        key: key.map(|key| Bytes::copy_from_slice(key.as_bytes())),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: Default::default(),
    }
}

#[test]
fn the_builder_starts_afresh_each_time() {
    let mut builder = BatchBuilder::with_capacity(4096);
    builder.start(0);
    builder.push(0, None, b"dropped");
    for value in [[7; 1000], [8; 1000]] {
        builder.start(0);
        builder.push(0, None, &value);
        let batch = builder.finish();
        let found: Vec<_> = records(&batch).unwrap().map(|record| record.unwrap().value).collect();
        assert_eq!(found, [Some(&value[..])]);
    }
}

#[test]
fn timestamps_thirty_days_apart_round_trip() {
    let thirty_days_ms = 30 * 24 * 3600 * 1000;
    let mut builder = BatchBuilder::default();
    builder.start(1_700_000_000_000);
    builder.push(0, None, b"first");
    builder.push(thirty_days_ms, None, b"second");
    let batch = builder.finish();
    let deltas: Vec<i64> =
        records(&batch).unwrap().map(|record| record.unwrap().timestamp_delta_ms).collect();
    assert_eq!(deltas, [0, thirty_days_ms]);
    assert_eq!(parse_batch(&batch).unwrap().max_timestamp_ms, 1_700_000_000_000 + thirty_days_ms);
    let decoded = RecordBatchDecoder::decode(&mut batch.clone()).unwrap();
    assert_eq!(decoded.records[1].timestamp, 1_700_000_000_000 + thirty_days_ms);
}

/// Body bytes of a record: attributes, timestamp delta 0, offset delta, no key, then `rest`.
fn record_bytes(offset_delta: u8, rest: &[u8]) -> Vec<u8> {
    let body = [&[0, 0, offset_delta * 2, 1], rest].concat();
    let mut out = Vec::new();
    varint::write_i64(&mut out, body.len() as i64);
    out.extend_from_slice(&body);
    out
}

#[test]
fn records_that_break_the_format_are_refused_in_words() {
    let value_and_no_headers = [2, b'v', 0];
    let one = record_bytes(0, &value_and_no_headers);
    let cases: &[(&str, i32, Vec<u8>, &str)] = &[
        ("length beyond the batch", 1, vec![0xd0, 0x0f, 0, 0], "it reaches beyond the batch"),
        ("negative length", 1, vec![1], "its length is negative"),
        ("empty record", 1, vec![0], "it has no attributes"),
        ("value beyond the record", 1, record_bytes(0, &[20, b'v']), "a length reaches beyond it"),
        ("value of length -2", 1, record_bytes(0, &[3, 0]), "a length is negative"),
        ("header count -1", 1, record_bytes(0, &[0, 1]), "its header count is negative"),
        (
            "header count 2^31-1",
            1,
            record_bytes(0, &[0, 0xfe, 0xff, 0xff, 0xff, 0x0f]),
            "it ends inside a variable-length integer",
        ),
        ("header without key", 1, record_bytes(0, &[0, 2, 1, 1]), "a header has no key"),
        ("bytes inside", 1, record_bytes(0, &[2, b'v', 0, 9]), "bytes are left inside it"),
        (
            "varint of six bytes",
            1,
            vec![0x80, 0x80, 0x80, 0x80, 0x80, 0],
            "a variable-length integer is too long",
        ),
        ("fewer than claimed", 2, one.clone(), "it ends inside a variable-length integer"),
        (
            "more than claimed",
            1,
            [one.clone(), record_bytes(1, &value_and_no_headers)].concat(),
            "bytes are left after the last record",
        ),
        (
            "offset deltas 0, 0",
            2,
            [one.clone(), one.clone()].concat(),
            "its offset delta is out of order",
        ),
    ];
    for (name, count, bytes, problem) in cases {
        let batch = batch_around(*count, count - 1, bytes);
        let header = parse_batch(&batch).unwrap();
        let error = validate_records(&batch, &header).unwrap_err();
        assert_eq!(error.error_code(), ErrorCode::InvalidRecord, "{name}");
        assert!(error.to_string().ends_with(problem), "{name}: {error}");
    }
}

#[test]
fn headers_are_kept_in_order_with_repeated_keys() {
    let headers = [2, b'v', 6, 2, b'a', 2, b'1', 2, b'a', 1, 2, b'b', 0];
    let batch = batch_around(1, 0, &record_bytes(0, &headers));
    let record = records(&batch).unwrap().next().unwrap().unwrap();
    let found: Vec<_> = record.headers.map(|header| (header.key, header.value)).collect();
    assert_eq!(found, [(&b"a"[..], Some(&b"1"[..])), (b"a", None), (b"b", Some(b""))]);
}

#[test]
fn compressed_records_are_not_walked() {
    let batch = forged(ATTRIBUTES_AT, &2i16.to_be_bytes());
    let header = validate_produced(&batch, NO_LIMIT).unwrap();
    assert_eq!(header.compression(), Ok(Compression::Snappy));
    assert_eq!(validate_records(&batch, &header), Ok(()));
    assert_eq!(records(&batch).unwrap_err(), BatchError::Compressed);
}

#[test]
fn a_walk_over_batches_stops_cleanly_where_the_last_is_cut() {
    let (first, second) = (batch_of(&[b"one"]), batch_of(&[b"two", b"three"]));
    let both = [&first[..], &second[..]].concat();
    for length in 0..=both.len() {
        let ranges: Vec<_> = batches(&both[..length]).map(|batch| batch.unwrap().1).collect();
        let expected = [0..first.len(), first.len()..both.len()];
        let whole = expected.iter().filter(|range| range.end <= length).count();
        assert_eq!(ranges, expected[..whole], "cut at {length}");
    }
}

#[test]
fn a_walk_over_batches_ends_after_an_error() {
    let good = batch_of(&[b"one"]);
    let mut bad = good.to_vec();
    bad[MAGIC_AT] = 1;
    let bytes = [&good[..], &bad, &good].concat();
    let results: Vec<_> = batches(&bytes).map(|batch| batch.map(|(_, range)| range)).collect();
    assert_eq!(results, [Ok(0..good.len()), Err(BatchError::Magic { magic: 1 })]);

    let backwards = forged(LAST_OFFSET_DELTA_AT, &(-1i32).to_be_bytes());
    assert!(matches!(batches(&backwards).next(), Some(Err(BatchError::RecordCount { .. }))));
}

#[test]
fn a_batch_emptied_by_compaction_moves_the_reader_past_it() {
    let mut batch = batch_around(0, 5, b"");
    stamp(&mut batch, Offset(10), LeaderEpoch(0));
    let (header, _) = batches(&batch).next().unwrap().unwrap();
    assert_eq!(header.end_offset(), Offset(16));
    assert_eq!(records(&batch).unwrap().count(), 0);
}

#[test]
fn an_end_offset_beyond_64_bits_saturates() {
    let mut batch = batch_of(&[b"one"]).to_vec();
    stamp(&mut batch, Offset(i64::MAX), LeaderEpoch(0));
    assert_eq!(parse_batch(&batch).unwrap().end_offset(), Offset(i64::MAX));
}

#[test]
fn varints_have_a_length_limit() {
    assert_eq!(varint::read_u32(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok((u32::MAX, 5)));
    assert_eq!(varint::read_u32(&[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(VarintError::TooLong));
    assert_eq!(varint::read_u32(&[0x80; 5]), Err(VarintError::TooLong));
    assert_eq!(varint::read_u32(&[0x80; 4]), Err(VarintError::Truncated));
    assert_eq!(varint::read_u32(&[]), Err(VarintError::Truncated));
    let ten = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    assert_eq!(varint::read_i64(&ten), Ok((i64::MIN, 10)));
    let mut eleven = [0x80; 11];
    eleven[10] = 0;
    assert_eq!(varint::read_i64(&eleven), Err(VarintError::TooLong));
    let beyond = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
    assert_eq!(varint::read_i64(&beyond), Err(VarintError::TooLong));
}

/// Everything that reads a batch, on anything: none of it may panic.
fn read_everything(bytes: &[u8]) {
    if let Ok(header) = validate_produced(bytes, NO_LIMIT) {
        let _ = validate_records(bytes, &header);
    }
    for (header, range) in batches(bytes).flatten() {
        let batch = &bytes[range];
        assert_eq!(parse_batch(batch), Ok(header));
        let _ = check_crc(batch, &header);
        for record in records(batch).into_iter().flatten().flatten() {
            let _ = record.headers.count();
        }
    }
}

type Pushed = (i64, Option<Vec<u8>>, Vec<u8>);

fn pushed() -> impl Strategy<Value = Vec<Pushed>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
    let record = (any::<i32>(), proptest::option::of(bytes()), bytes());
    let record = record.prop_map(|(delta, key, value)| (i64::from(delta), key, value));
    proptest::collection::vec(record, 1..20)
}

fn build(base_timestamp_ms: i64, pushed: &[Pushed]) -> Bytes {
    let mut builder = BatchBuilder::default();
    builder.start(base_timestamp_ms);
    for (delta, key, value) in pushed {
        builder.push(*delta, key.as_deref(), value);
    }
    builder.finish()
}

proptest! {
    #[test]
    fn varints_round_trip(value in any::<i64>(), small in any::<i32>()) {
        for value in [value, i64::from(small)] {
            let mut out = Vec::new();
            varint::write_i64(&mut out, value);
            prop_assert_eq!(out.len(), varint::size_of_i64(value));
            prop_assert_eq!(varint::read_i64(&out), Ok((value, out.len())));
            if let Ok(value) = i32::try_from(value) {
                prop_assert_eq!(varint::read_i32(&out), Ok((value, out.len())));
            }
        }
    }

    #[test]
    fn batches_round_trip(base in 0..1i64 << 50, pushed in pushed()) {
        let batch = build(base, &pushed);
        let header = validate_produced(&batch, NO_LIMIT).unwrap();
        prop_assert_eq!(header.size_bytes, batch.len());
        prop_assert_eq!(validate_records(&batch, &header), Ok(()));
        let found: Vec<Pushed> = records(&batch)
            .unwrap()
            .map(|record| record.unwrap())
            .map(|r| (r.timestamp_delta_ms, r.key.map(<[u8]>::to_vec), r.value.unwrap().to_vec()))
            .collect();
        prop_assert_eq!(found, pushed);
    }

    #[test]
    fn mutated_batches_never_panic(
        pushed in pushed(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
        splice in proptest::option::of((any::<prop::sample::Index>(), any::<[u8; 6]>())),
        length in proptest::option::of(any::<i32>()),
        signed in any::<bool>(),
    ) {
        let mut bytes = [build(0, &pushed), build(9, &pushed)].concat();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        if let Some((at, piece)) = splice {
            let at = at.index(bytes.len());
            bytes.splice(at..at, piece);
        }
        if let Some(length) = length {
            (&mut bytes[BATCH_LENGTH_AT..]).put_i32(length);
        }
        if signed && let Ok(header) = parse_batch(&bytes) {
            sign(&mut bytes[..header.size_bytes]);
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        read_everything(&bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_everything(&bytes);
    }
}
