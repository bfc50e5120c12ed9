//! Errors of a connection, and the errors in answers to requests.

use thiserror::Error;

/// The error in an answer; the specification's values, which are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// The export is read-only.
    NotPermitted,
    /// The device failed.
    Io,
    /// There is no memory for it now.
    NoMemory,
    /// The request is invalid here.
    Invalid,
    /// No room, or beyond the end.
    NoSpace,
    /// More bytes than may be sent as one piece.
    Overflow,
    /// Not supported in this form.
    NotSupported,
    /// The server is about to end.
    Shutdown,
}

impl Errno {
    pub(crate) fn value(self) -> u32 {
        match self {
            Self::NotPermitted => 1,
            Self::Io => 5,
            Self::NoMemory => 12,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::NotSupported => 95,
            Self::Shutdown => 108,
        }
    }
}

/// A client that cannot be served any further, because it violates the protocol or negotiates without end. The host
/// closes the connection; earlier requests may still be carried out, but are not answered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// Flags that the server has not offered.
    #[error("the client answers the greeting with flags {flags:#x}, of which this server offers only 0x3")]
    ClientFlags {
        /// All flags of the client.
        flags: u32,
    },
    /// A wrong magic number.
    #[error("the client sends {found:#x} where {what} must begin with {expected:#x}")]
    Magic {
        /// An option or a request.
        what: &'static str,
        /// The number received.
        found: u64,
        /// The number expected.
        expected: u64,
    },
    /// A handshake without an end.
    #[error("the client has sent {most} options and still has not chosen an export")]
    TooManyOptions {
        /// The number allowed.
        most: u32,
    },
    /// An option too long to skip.
    #[error("the client sends option {option} with {length} bytes; at most {most} are passed over")]
    LongOption {
        /// Its number.
        option: u32,
        /// Its length.
        length: u32,
        /// The most allowed.
        most: u32,
    },
    /// The old way of choosing an export, which can only be refused by hanging up.
    #[error("the client asks for export {name:?} by the option that knows no refusal; {why}")]
    ExportName {
        /// The name as the client wrote it.
        name: String,
        /// The reason for the refusal.
        why: &'static str,
    },
    /// Unencrypted bytes that would be taken for encrypted ones.
    #[error("the client sends {bytes} bytes after it asked for TLS, before it could begin")]
    BeforeTls {
        /// How many.
        bytes: usize,
    },
}
