use bytes::{Bytes, BytesMut};
use std::io::IoSlice;

use super::{FrameReader, SendQueue};

fn framed(frames: &[&[u8]]) -> Vec<u8> {
    let mut stream = Vec::new();
    for frame in frames {
        stream.extend((frame.len() as i32).to_be_bytes());
        stream.extend(*frame);
    }
    stream
}

fn drain(reader: &mut FrameReader) -> Vec<BytesMut> {
    std::iter::from_fn(|| reader.next_frame().unwrap()).collect()
}

fn sent(queue: &mut SendQueue, at_most: usize) -> Vec<u8> {
    let mut slices = [IoSlice::new(&[]); 3];
    let count = queue.io_slices(&mut slices);
    let mut bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
    bytes.truncate(at_most);
    queue.advance(bytes.len());
    bytes
}

#[test]
fn frames_survive_every_split_position() {
    let frames: [&[u8]; 4] = [b"first", b"", b"x", b"the last frame"];
    let stream = framed(&frames);
    for first in 0..=stream.len() {
        for second in first..=stream.len() {
            let mut reader = FrameReader::new(100);
            let mut got = Vec::new();
            for part in [&stream[..first], &stream[first..second], &stream[second..]] {
                reader.extend(part);
                got.extend(drain(&mut reader));
            }
            assert_eq!(got, frames, "split at {first} and {second}");
            assert!(!reader.is_mid_frame());
        }
    }
}

#[test]
fn many_frames_of_one_read_come_out_in_order() {
    let bodies: Vec<Vec<u8>> = (0..300_u32).map(|i| i.to_be_bytes().repeat(30)).collect();
    let slices: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
    let mut reader = FrameReader::new(1000);
    reader.extend(&framed(&slices));
    assert_eq!(drain(&mut reader), bodies);
}

#[test]
fn mid_frame_is_known_inside_the_length_and_inside_the_body() {
    let stream = framed(&[b"abc"]);
    for cut in 1..stream.len() {
        let mut reader = FrameReader::new(100);
        assert!(!reader.is_mid_frame());
        reader.extend(&stream[..cut]);
        assert_eq!(reader.next_frame(), Ok(None));
        assert!(reader.is_mid_frame(), "after {cut} bytes");
    }
}

#[test]
fn a_lying_length_is_refused_before_anything_is_allocated_for_it() {
    for length in [-1, i32::MIN, 101, i32::MAX] {
        let mut reader = FrameReader::new(100);
        reader.extend(&length.to_be_bytes());
        let before = reader.buffer.capacity();
        assert_eq!(reader.next_frame(), Err(length));
        assert_eq!(reader.buffer.capacity(), before);
    }
    let mut reader = FrameReader::new(100);
    reader.extend(&framed(&[&[7; 100]]));
    assert_eq!(drain(&mut reader).len(), 1, "the limit itself is allowed");
}

#[test]
fn a_large_announced_frame_gets_memory_only_as_it_arrives() {
    let mut reader = FrameReader::new(i32::MAX as usize);
    reader.extend(&(512 * 1024 * 1024_i32).to_be_bytes());
    assert_eq!(reader.next_frame(), Ok(None));
    assert!(reader.spare().len() <= 2 * super::CHUNK_BYTES_MAX);
}

#[test]
fn frames_larger_than_any_buffer_come_out_whole() {
    let body: Vec<u8> = (0..5_000_000_u32).map(|i| i as u8).collect();
    let mut reader = FrameReader::new(body.len());
    for part in framed(&[&body, b"next"]).chunks(70_000) {
        reader.extend(part);
    }
    assert_eq!(drain(&mut reader), [&body[..], b"next"]);
}

#[test]
fn small_frames_that_are_kept_share_a_buffer() {
    let mut reader = FrameReader::new(10_000);
    let frames: Vec<BytesMut> = (0..20)
        .flat_map(|_| {
            reader.extend(&framed(&[&[1; 1000]]));
            drain(&mut reader)
        })
        .collect();
    let first = frames[0].as_ptr() as usize;
    assert!(frames.iter().all(|frame| (frame.as_ptr() as usize) - first < 64 * 1024));
}

#[test]
fn the_queue_gives_back_what_was_pushed_at_every_step_length() {
    let payload = [Bytes::from_static(b"records "), Bytes::new(), Bytes::from_static(b"more")];
    for step in 1..40 {
        let mut queue = SendQueue::new();
        queue.push_frame(Bytes::from_static(b"head "), &payload);
        queue.push_frame(Bytes::new(), &[]);
        queue.push_frame(Bytes::from_static(b"second"), &[]);
        assert_eq!(queue.bytes(), 4 + 17 + 4 + 4 + 6);
        let mut stream = Vec::new();
        while !queue.is_empty() {
            stream.extend(sent(&mut queue, step));
        }
        assert_eq!(stream, framed(&[b"head records more", b"", b"second"]), "step {step}");
    }
}

#[test]
fn queued_prefixes_stay_where_they_are() {
    let mut queue = SendQueue::new();
    queue.push_frame(Bytes::from_static(b"a"), &[]);
    let address = queue.pieces[0].as_ptr();
    for _ in 0..5000 {
        queue.push_frame(Bytes::from_static(b"b"), &[]);
    }
    assert_eq!(queue.pieces[0].as_ptr(), address);
    queue.clear();
    assert!(queue.is_empty());
}
