//! Errors of a connection, and the errors in answers to requests.

use thiserror::Error;

/// The error code of an answer. The specification's values are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// The export is read-only.
    NotPermitted,
    /// The device failed.
    Io,
    /// There is no memory for the request now.
    NoMemory,
    /// The request is invalid for this export.
    Invalid,
    /// The device is full, or the request ends beyond the export.
    NoSpace,
    /// The read has more bytes than the server can send as one piece.
    Overflow,
    /// The command is not supported in this form.
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

/// The reason why a client cannot be served any longer: it violates the protocol, or negotiates without end. The
/// host closes the connection. Earlier requests may still be executed, but are not answered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// The client has set flags that the server did not offer.
    #[error("the client answers the greeting with flags {flags:#x}, of which this server offers only 0x3")]
    ClientFlags {
        /// All flags of the client.
        flags: u32,
    },
    /// A message has a wrong magic number.
    #[error("the client sends {found:#x} where {what} must begin with {expected:#x}")]
    Magic {
        /// The kind of message: an option or a request.
        what: &'static str,
        /// The number received.
        found: u64,
        /// The number expected.
        expected: u64,
    },
    /// The client has sent too many options without choosing an export.
    #[error("the client has sent {most} options and still has not chosen an export")]
    TooManyOptions {
        /// The number allowed.
        most: u32,
    },
    /// The client has sent an option that is too long to be skipped.
    #[error("the client sends option {option} with {length} bytes; at most {most} are passed over")]
    LongOption {
        /// The option's number.
        option: u32,
        /// The option's length in bytes.
        length: u32,
        /// The most bytes allowed.
        most: u32,
    },
    /// The client asks by EXPORT_NAME for an export that it cannot have. That option has no error reply.
    #[error("the client asks for export {name:?} by the option that knows no refusal; {why}")]
    ExportName {
        /// The name as the client wrote it.
        name: String,
        /// The reason for the refusal.
        why: &'static str,
    },
    /// The client has sent unencrypted bytes that would be taken for encrypted ones.
    #[error("the client sends {bytes} unencrypted bytes after STARTTLS")]
    BeforeTls {
        /// The number of bytes.
        bytes: usize,
    },
}
