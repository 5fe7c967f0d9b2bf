//! `ackmark completions`: what a shell completes.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::exit::{Exit, Failure};

/// Print a script that makes a shell complete ackmark's commands and options
#[derive(Debug, Args)]
#[command(after_help = "bash: ackmark completions bash > \
                        ~/.local/share/bash-completion/completions/ackmark")]
pub struct CompletionsArguments {
    /// For which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// `ackmark completions`
pub fn run(arguments: &CompletionsArguments) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    let mut command = super::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "ackmark", &mut script);
    super::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
