//! Tells the program which commit it was built from. Asks git and nobody else.

use std::path::Path;
use std::process::Command;

fn main() {
    // Without a tag in reach this is the abbreviated commit, `-dirty` if tracked files were changed.
    let commit = git(&["describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]);
    println!("cargo::rustc-env=ACKMARK_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    // The head's log grows with every commit and checkout; the sources decide whether it is dirty.
    let head = ["HEAD", "logs/HEAD"].map(|file| git(&["rev-parse", "--git-path", file]));
    let sources = ["src", "build.rs", "Cargo.toml", "Cargo.lock"].map(|file| Some(file.to_owned()));
    for file in head.into_iter().chain(sources).flatten() {
        if Path::new(&file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
}

/// What git answers, in one line; nothing if there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
