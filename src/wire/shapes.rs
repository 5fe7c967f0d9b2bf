//! How an API's file writes down the shape of a message that the schema crate decodes, for
//! [`super::bounds`]. Messages with codecs of this room have none: their decoders check as they go.
//!
//! A field reads `name first-version: shape`, or `name first-version to last-version: shape`.

use super::bounds::Shape;
use super::bounds::Shape::Fixed;

pub(super) const BOOL: Shape = Fixed(1);
pub(super) const I8: Shape = Fixed(1);
pub(super) const I16: Shape = Fixed(2);
pub(super) const I32: Shape = Fixed(4);
pub(super) const I64: Shape = Fixed(8);
pub(super) const UUID: Shape = Fixed(16);

macro_rules! shape {
    ({
        $($name:ident $first:literal $(to $last:literal)?: $shape:tt),* $(,)?
        $(; tags $($tag_name:ident = $tag:literal from $tag_first:literal: $tag_shape:tt),*)?
    }) => {
        Struct(
            &[$(Field($first, last_version!($($last)?), shape!($shape))),*],
            &[$($(Tag($tag, $tag_first, shape!($tag_shape))),*)?],
        )
    };
    ([$element:tt]) => {
        Array(&shape!($element))
    };
    ((nullable { $($name:ident $first:literal: $shape:tt),* })) => {
        NullableStruct(&[$(Field($first, NEWEST, shape!($shape))),*])
    };
    ($named:ident) => {
        $named
    };
}

macro_rules! last_version {
    () => {
        NEWEST
    };
    ($last:literal) => {
        $last
    };
}

/// Has the schema crate read and write a message, once its bytes are known to have this shape.
macro_rules! schema_message {
    ($message:ty, $shape:tt) => {
        impl Message for $message {
            fn read(body: &mut Body<'_>) -> Result<Self, WireError> {
                static SHAPE: Shape = shape!($shape);
                body.decode(&SHAPE)
            }

            fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
                out.encode(self)
            }
        }
    };
}
