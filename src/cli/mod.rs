//! What was typed.

/// Runs the command line; the exit status is the process's.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
