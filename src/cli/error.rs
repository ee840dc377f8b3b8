//! How a command fails: one sentence on standard error, and an exit code.

use std::{io, process::ExitCode};

use crate::{
    hub::HubError, model::ModelError, sampling::SettingsError, tokenizer::TokenizerError,
    worker::EngineError,
};

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Bad usage or input: exit code 2.
    #[error("{0}")]
    Input(String),
    /// A check that disagreed: exit code 1, its rows have been printed.
    #[error("the self-check found a difference")]
    CheckFailed,
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Hub(#[from] HubError),
    /// Whoever read the output has gone: no failure.
    #[error("the output was closed")]
    OutputClosed,
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

impl CliError {
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::OutputClosed => ExitCode::SUCCESS,
            Self::CheckFailed | Self::Output(_) => ExitCode::from(1),
            Self::Engine(EngineError::Model(error)) if is_of_the_machine(error) => {
                ExitCode::from(1)
            }
            Self::Hub(error) if !error.is_of_the_request() => ExitCode::from(1),
            Self::Input(_) | Self::Engine(_) | Self::Hub(_) => ExitCode::from(2),
        }
    }
}

/// What the machine cannot do is no bad input.
fn is_of_the_machine(error: &ModelError) -> bool {
    matches!(
        error,
        ModelError::NoAdapter(_)
            | ModelError::Adapter { .. }
            | ModelError::TooLargeForDevice { .. }
            | ModelError::Device(_)
    )
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Output(error)
        }
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

impl From<ModelError> for CliError {
    fn from(error: ModelError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<TokenizerError> for CliError {
    fn from(error: TokenizerError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<SettingsError> for CliError {
    fn from(error: SettingsError) -> Self {
        Self::Input(error.to_string())
    }
}
