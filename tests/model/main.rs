//! The replication rules, verified: the seeded simulation, and an exhaustive search over the same
//! machines. What they cover is in `docs/verification.md`.

mod exhaustive;
mod simulation;

use std::io::Write;

/// Tells whoever runs the tests what was covered, past the harness, which keeps what passing tests
/// print to itself.
fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
