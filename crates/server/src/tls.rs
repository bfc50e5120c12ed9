//! Encryption: certificates from files, and one client's session.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// The most bytes of a file of certificates or of a key; a thousand certificates have some 2 MiB.
const PEM_BYTES_MAX: u64 = 4 << 20;

/// The most bytes encrypted at once: encrypted bytes that the client does not take are wasted memory.
const PIECE_BYTES: usize = 1 << 20;

/// A server's certificate, and its requirements on clients.
///
/// ```no_run
/// use server::{ExportConfig, Tls};
/// let tls = Tls::from_files("disk.crt".as_ref(), "disk.key".as_ref(), Some("clients.crt".as_ref()), true)?;
/// let export = ExportConfig { tls: Some(tls), ..ExportConfig::default() };
/// # Ok::<(), server::TlsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    required: bool,
}

/// The reason why TLS cannot be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file of certificates or keys cannot be read.
    #[error("{path}: {source}; give a file in PEM format")]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: rustls::pki_types::pem::Error,
    },
    /// A file has no certificate.
    #[error("{path} has no certificate; give a file in PEM format")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key do not belong together, or are of an unsupported kind.
    #[error("the certificate of {certificate} with the key of {key}: {source}")]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The error.
        source: rustls::Error,
    },
    /// The certificates cannot be used to check clients.
    #[error("the certificates in {path}, by which clients' certificates must be signed: {why}")]
    Clients {
        /// The file.
        path: PathBuf,
        /// The error.
        why: String,
    },
}

impl Tls {
    /// Reads the certificate (with those between it and the root, if any) and its key. With `clients`, only clients
    /// with a certificate signed by one in that file are accepted. If TLS is `required`, a client without it learns
    /// and gets nothing; otherwise each client may choose.
    ///
    /// # Errors
    /// A file cannot be read, or certificate and key do not fit together.
    pub fn from_files(
        certificate: &Path,
        key: &Path,
        clients: Option<&Path>,
        required: bool,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pair = |source| TlsError::Pair { certificate: certificate.into(), key: key.into(), source };
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|source| TlsError::File { path: key.to_owned(), source })?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(pair)?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let wrong = |why: String| TlsError::Clients { path: path.to_owned(), why };
                let mut roots = RootCertStore::empty();
                for root in certificates(path)? {
                    roots.add(root).map_err(|error| wrong(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(error.to_string()))?)
            }
        };
        let config = Arc::new(builder.with_single_cert(chain, private).map_err(pair)?);
        Ok(Self { config, required })
    }

    /// Returns whether encryption is required.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Returns the configuration, for a session that is not an export's.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    pub(crate) fn offered(tls: Option<&Self>) -> nbd::Tls {
        match tls {
            None => nbd::Tls::Off,
            Some(Self { required: false, .. }) => nbd::Tls::Offered,
            Some(_) => nbd::Tls::Required,
        }
    }
}

/// Reads a file of at most [`PEM_BYTES_MAX`] bytes. The bound also ends the reading of an endless file, such as a
/// device.
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let wrong =
        |error| TlsError::File { path: path.to_owned(), source: rustls::pki_types::pem::Error::Io(error) };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(wrong)?;
    file.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(wrong)?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        return Err(wrong(io::Error::other(format!("the file has more than {PEM_BYTES_MAX} bytes"))));
    }
    Ok(bytes)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |source| TlsError::File { path: path.to_owned(), source };
    let read = read(path)?;
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(&read).collect::<Result<_, _>>().map_err(wrong)?;
    if certificates.is_empty() {
        return Err(TlsError::Empty { path: path.to_owned() });
    }
    Ok(certificates)
}

/// One client's encryption. It touches no socket: encrypted bytes come in and go out.
#[derive(Debug)]
pub(crate) struct Session {
    connection: ServerConnection,
}

/// The result of decrypting bytes.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// The decrypted bytes.
    pub plain: Vec<u8>,
    /// Whether the client has announced the end of its data.
    pub closed: bool,
}

impl Session {
    pub fn new(tls: &Tls) -> Result<Self, rustls::Error> {
        let mut connection = ServerConnection::new(Arc::clone(&tls.config))?;
        // `send` passes at most `PIECE_BYTES` at a time.
        connection.set_buffer_limit(None);
        Ok(Self { connection })
    }

    /// Returns whether the handshake is going on.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Decrypts bytes from the socket.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<Received, rustls::Error> {
        let mut received = Received::default();
        while !bytes.is_empty() && !received.closed {
            // Reading from memory fails only if the TLS session accepts nothing more.
            if !matches!(self.connection.read_tls(&mut bytes), Ok(read) if read > 0) {
                return Err(rustls::Error::General("bytes after the end".into()));
            }
            let state = self.connection.process_new_packets()?;
            received.closed = state.peer_has_closed();
            let before = received.plain.len();
            received.plain.resize(before + state.plaintext_bytes_to_read(), 0);
            let read = self.connection.reader().read_exact(&mut received.plain[before..]);
            read.map_err(|error| rustls::Error::General(error.to_string()))?;
        }
        Ok(received)
    }

    /// Encrypts the first part of `plain`, after any pending output; returns the number of bytes taken.
    pub fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let some = &plain[..plain.len().min(PIECE_BYTES)];
        self.connection.writer().write_all(some)?;
        while self.connection.wants_write() {
            self.connection.write_tls(out)?;
        }
        Ok(some.len())
    }

    /// Announces the end of the data.
    pub fn close(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.connection.send_close_notify();
        self.send(&[], out).map(|_| ())
    }
}
