//! Parse, dispatch, exit.

fn main() -> std::process::ExitCode {
    ackmark::cli::main()
}
