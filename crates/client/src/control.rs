//! The control interface: JSON requests and answers.

use crate::http;
use serde_json::Value;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason for which a request failed.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The daemon cannot be reached.
    #[error("{}: {error}; is the daemon running, and is this its control socket?", .socket.display())]
    Unreachable {
        /// The path of the socket.
        socket: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The daemon refused the request.
    #[error("{message}")]
    Refused {
        /// The HTTP code.
        code: u16,
        /// The field of the request that is wrong, if the reason is a field.
        field: Option<String>,
        /// The reason, and the action to take.
        message: String,
    },
    /// Another program than the daemon has answered.
    #[error("the program that answers at {} is no freeblock daemon ({what}); give the path of a daemon's control socket", .socket.display())]
    Strange {
        /// The path of the socket.
        socket: PathBuf,
        /// The problem with the answer.
        what: String,
    },
}

/// A daemon's control socket.
///
/// ```no_run
/// use client::{Control, USUAL_PATH};
/// use serde_json::json;
/// let control = Control::new(USUAL_PATH);
/// let task = control.post("/v1/disks/data/tasks", &json!({ "kind": "scrub" }))?;
/// println!("task {} is {}", task["id"], task["state"]);
/// # Ok::<(), client::ControlError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Control {
    socket: PathBuf,
}

impl Control {
    /// Creates the interface to the daemon that listens at `socket`, without connecting yet.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// The daemon cannot be reached, or refuses.
    pub fn get(&self, path: &str) -> Result<Value, ControlError> {
        self.json("GET", path, None)
    }

    /// Sends a POST request, which starts or controls something.
    ///
    /// # Errors
    /// The daemon cannot be reached, or refuses.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, ControlError> {
        self.json("POST", path, Some(body))
    }

    /// Sends a PATCH request, which changes something.
    ///
    /// # Errors
    /// The daemon cannot be reached, or refuses.
    pub fn patch(&self, path: &str, body: &Value) -> Result<Value, ControlError> {
        self.json("PATCH", path, Some(body))
    }

    /// Sends a GET request whose answer is text, such as /metrics.
    ///
    /// # Errors
    /// The daemon cannot be reached, or refuses.
    pub fn text(&self, path: &str) -> Result<String, ControlError> {
        let body = self.bytes("GET", path, None)?;
        String::from_utf8(body).map_err(|_| self.strange("no text"))
    }

    fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, ControlError> {
        let body = body.map(Value::to_string);
        let bytes = self.bytes(method, path, body.as_ref().map(String::as_bytes))?;
        serde_json::from_slice(&bytes).map_err(|_| self.strange("no JSON"))
    }

    fn bytes(&self, method: &str, path: &str, body: Option<&[u8]>) -> Result<Vec<u8>, ControlError> {
        let answer = http::request(&self.socket, method, path, body);
        let (code, body) =
            answer.map_err(|error| ControlError::Unreachable { socket: self.socket.clone(), error })?;
        match code {
            200..=299 => Ok(body),
            _ => Err(refusal(code, &body).unwrap_or_else(|| self.strange(&format!("code {code}")))),
        }
    }

    fn strange(&self, what: &str) -> ControlError {
        ControlError::Strange { socket: self.socket.clone(), what: what.into() }
    }
}

/// Returns the error in a daemon's answer.
pub(crate) fn refusal(code: u16, body: &[u8]) -> Option<ControlError> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let error = value.get("error")?;
    let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(ControlError::Refused { code, field: text("field"), message: text("message")? })
}
