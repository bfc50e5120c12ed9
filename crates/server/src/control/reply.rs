//! Answers in JSON, and refusals with the wrong field and advice.

use crate::manager::ManagerError;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The reason why a request was refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub code: StatusCode,
    /// The field that is wrong, if the reason is a field.
    pub field: Option<String>,
    pub message: String,
}

impl Refusal {
    pub fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Self { code, field: None, message: message.into() }
    }

    /// Makes the refusal for a disk that does not answer. A call that changes a task waits for the journal, too, so
    /// the message names the state directory.
    pub fn gone() -> Self {
        let why = "the disk, or its state directory, does not answer; look at the daemon's log";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

impl From<ManagerError> for Refusal {
    fn from(error: ManagerError) -> Self {
        let code = match error {
            ManagerError::NoTask(_) => StatusCode::NOT_FOUND,
            ManagerError::Field(_) => StatusCode::BAD_REQUEST,
            ManagerError::Over { .. } | ManagerError::Busy(_) | ManagerError::Damaged(_) => {
                StatusCode::CONFLICT
            }
            ManagerError::TooMany => StatusCode::TOO_MANY_REQUESTS,
        };
        let field = match &error {
            ManagerError::Field(error) => Some(error.field.to_owned()),
            _ => None,
        };
        Self { code, field, message: error.to_string() }
    }
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        // In its messages Serde puts names of fields between backticks.
        let text = error.to_string();
        let field = text.split('`').nth(1).filter(|_| text.contains("field")).map(str::to_owned);
        let message = format!("the body is invalid: {text}; docs/CONTROL.md has all fields");
        Self { code: StatusCode::BAD_REQUEST, field, message }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut error = json!({ "message": self.message });
        if let (Some(field), Some(map)) = (self.field, error.as_object_mut()) {
            map.insert("field".into(), field.into());
        }
        (self.code, Json(json!({ "error": error }))).into_response()
    }
}
