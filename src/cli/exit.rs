//! What the exit status says (spec/measurement.md M50).

use std::error::Error;
use std::process::ExitCode;

use crate::scenario::reason::with_sources;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: a bar was missed, or there is a regression.
    Short,
    /// 2: arguments, a workload or a directory cannot be used.
    Usage,
    /// 3: a node failed, records failed, or nothing was measured.
    Invalid,
    /// 4: measured in another environment, so there is nothing to compare.
    OtherEnvironment,
    /// 5: too noisy to say, where that was asked to fail.
    Inconclusive,
    /// 6: a record was lost, or another promise about the data was broken.
    DataWrong,
    /// 130: interrupted; what was measured until then is there.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Short => 1,
            Exit::Usage => 2,
            Exit::Invalid => 3,
            Exit::OtherEnvironment => 4,
            Exit::Inconclusive => 5,
            Exit::DataWrong => 6,
            Exit::Interrupted => 130,
        })
    }
}

/// A command that gave nothing: its status and one message.
#[derive(Debug)]
pub struct Failure {
    /// The status.
    pub exit: Exit,
    /// What, why, and what would be allowed.
    pub message: String,
}

impl Failure {
    /// Something that was typed or named cannot be used.
    pub fn usage(error: &dyn Error) -> Failure {
        Failure::unusable(with_sources(error))
    }

    /// As [`Failure::usage`], in words.
    pub fn unusable(message: String) -> Failure {
        Failure { exit: Exit::Usage, message }
    }

    /// Something failed that had begun.
    pub fn failed(error: &dyn Error) -> Failure {
        Failure::invalid(with_sources(error))
    }

    /// As [`Failure::failed`], in words.
    pub fn invalid(message: String) -> Failure {
        Failure { exit: Exit::Invalid, message }
    }
}
