//! Encryption in the configuration file.

use super::source::Source;
use crate::problem::Problem;
use serde::Deserialize;
use server::{Tls, TlsError};
use std::path::PathBuf;
use toml::Spanned;

/// The table `[disk.tls]`, parsed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsText {
    certificate: Spanned<PathBuf>,
    key: Spanned<PathBuf>,
    clients: Option<Spanned<PathBuf>>,
    required: Option<bool>,
}

impl TlsText {
    /// Returns the files that the table names.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let all = [Some(&self.certificate), Some(&self.key), self.clients.as_ref()];
        all.into_iter().flatten().map(|path| path.get_ref().clone())
    }

    /// Reads the certificates and the key; an error is underlined where the table names the file.
    pub(super) fn check(&self, place: &Source<'_>) -> Result<Tls, Problem> {
        let (certificate, key) = (self.certificate.get_ref(), self.key.get_ref());
        let clients = self.clients.as_ref().map(|path| path.get_ref().as_path());
        Tls::from_files(certificate, key, clients, self.required.unwrap_or(true)).map_err(|error| {
            let all = [Some(&self.certificate), Some(&self.key), self.clients.as_ref()];
            let named = match &error {
                TlsError::File { path, .. } | TlsError::Empty { path } | TlsError::Clients { path, .. } => {
                    all.into_iter().flatten().find(|one| one.get_ref() == path)
                }
                _ => Some(&self.key),
            };
            place.problem(named.unwrap_or(&self.certificate).span(), error)
        })
    }
}
