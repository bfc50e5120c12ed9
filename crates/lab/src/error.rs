//! The error of an experiment.

use thiserror::Error;

/// An experiment that cannot be run.
#[derive(Debug, Error)]
#[error("{doing}: {source}")]
pub struct LabError {
    /// The action that failed.
    pub doing: String,
    /// The cause.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl LabError {
    /// Makes the error of an action with its cause.
    pub fn new(
        doing: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { doing: doing.into(), source: source.into() }
    }
}
