//! Walks a message by its shape before the schema crate decodes it.
//!
//! The crate's decoders allocate by whatever count they find; a frame of five bytes can end the
//! process (spec/kafka-wire.md MUST 1). After this walk every length and count is known to lie
//! within the bytes, and the number of elements within a fixed limit. Values are not looked at.

use super::error::Problem;
use super::reader::Reader;

/// The last version there will ever be.
pub(super) const NEWEST: i16 = i16::MAX;

/// The shape of a value. Null is let through wherever the encoding has one: the decoder knows
/// better where it is allowed.
#[derive(Debug)]
pub(super) enum Shape {
    /// So many bytes.
    Fixed(usize),
    /// A string.
    String,
    /// An array of these.
    Array(&'static Shape),
    /// Fields in order, then tagged fields.
    Struct(&'static [Field], &'static [Tag]),
    /// A presence byte, then perhaps a struct.
    NullableStruct(&'static [Field]),
}

/// A field: first version, last version, shape.
#[derive(Debug)]
pub(super) struct Field(pub(super) i16, pub(super) i16, pub(super) Shape);

/// A tagged field: tag, first version, shape. The crate reads these without regard to their size.
#[derive(Debug)]
pub(super) struct Tag(pub(super) u32, pub(super) i16, pub(super) Shape);

/// Checks that `reader` holds exactly one value of `shape` as of `version`, from its position to
/// its end.
pub(super) fn check(
    reader: &mut Reader<'_>,
    shape: &'static Shape,
    version: i16,
) -> Result<(), Problem> {
    walk(reader, shape, version)?;
    reader.finish()
}

fn walk(reader: &mut Reader<'_>, shape: &'static Shape, version: i16) -> Result<(), Problem> {
    match shape {
        Shape::Fixed(size) => reader.skip(*size),
        Shape::String => reader.skip_string(),
        Shape::Array(element) => walk_array(reader, element, version),
        Shape::Struct(fields, tags) => walk_struct(reader, fields, tags, version),
        Shape::NullableStruct(fields) => match reader.i8()? {
            1 => walk_struct(reader, fields, &[], version),
            -1 => Ok(()),
            other => Err(Problem::Presence(other)),
        },
    }
}

fn walk_array(
    reader: &mut Reader<'_>,
    element: &'static Shape,
    version: i16,
) -> Result<(), Problem> {
    if let Shape::Fixed(size) = element {
        // Numbers take the same memory decoded: no limit but the bytes themselves.
        let count = reader.nullable_count(*size)?;
        return reader.skip(count.unwrap_or(0) * size);
    }
    let count = reader.nullable_count(1)?.unwrap_or(0);
    reader.spend(count)?;
    for _ in 0..count {
        walk(reader, element, version)?;
    }
    Ok(())
}

fn walk_struct(
    reader: &mut Reader<'_>,
    fields: &'static [Field],
    tags: &'static [Tag],
    version: i16,
) -> Result<(), Problem> {
    for Field(first, last, shape) in fields {
        if *first <= version && version <= *last {
            walk(reader, shape, version)?;
        }
    }
    reader.tags(|number, inside| {
        let known = tags.iter().find(|Tag(tag, first, _)| *tag == number && *first <= version);
        match known {
            Some(Tag(_, _, shape)) => walk(inside, shape, version).map(|()| true),
            None => Ok(false),
        }
    })
}
