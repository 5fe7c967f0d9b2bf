//! The result folder and its schema.
