//! Access to the page, by password and by the origin that a browser reports.

use axum::http::{HeaderMap, StatusCode, header};
use base64::prelude::{BASE64_STANDARD, Engine};
use std::fmt;
use std::net::IpAddr;
use thiserror::Error;

/// The header with the secret without which the page may not change anything.
pub(super) const CONTROL: &str = "x-freeblock-control";

/// The user's name for a browser's password dialog.
const USER: &str = "freeblock";

/// The fewest bytes of a password: 16 random letters and digits cannot be guessed by trial.
const TOKEN_BYTES_MIN: usize = 16;
/// The most bytes of a password.
const TOKEN_BYTES_MAX: usize = 256;

/// A password of the page. Its text never appears in a message or in the log.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A text that is no password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the token needs {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} letters, digits or signs of ASCII on one line; `head -c 24 /dev/urandom | base64` makes one"
)]
pub struct TokenError;

impl Token {
    /// Takes a password: the text without leading and trailing white space.
    ///
    /// # Errors
    /// The text is too short, too long, or has other characters than visible ASCII.
    ///
    /// ```
    /// use server::web::Token;
    /// assert!(Token::new("u2Yp0hXlQ8mZb7Rk\n").is_ok());
    /// assert!(Token::new("secret").is_err());
    /// ```
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(text.to_owned())) } else { Err(TokenError) }
    }
}

/// The refusal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub code: StatusCode,
    pub why: &'static str,
}

const PASSWORD: Rejection =
    Rejection { code: StatusCode::UNAUTHORIZED, why: "the page needs its token; the user is freeblock" };
const NAME: Rejection = Rejection {
    code: StatusCode::FORBIDDEN,
    why: "the page is shown under an address or as localhost, because any site could give this machine a name; open it as http://127.0.0.1 with the port",
};
const ELSEWHERE: Rejection = Rejection {
    code: StatusCode::FORBIDDEN,
    why: "another site's page has sent the request; open the daemon's own page, and act there",
};
const ONLY_SHOWS: Rejection = Rejection {
    code: StatusCode::FORBIDDEN,
    why: "the page only shows; the daemon's --web-control lets it start scrubs and steer tasks",
};
const OLD: Rejection = Rejection {
    code: StatusCode::FORBIDDEN,
    why: "the request is of an earlier run of the daemon, or was not sent by its page; load the page again",
};

/// The conditions under which a request is accepted.
#[derive(Debug)]
pub(super) struct RequestGuard {
    /// The `Authorization` header that a browser sends with the right password; `None` if none is
    /// needed.
    expected: Option<String>,
    encrypted: bool,
    /// The secret that the page needs to change something; `None` if the page only shows.
    control: Option<String>,
}

impl RequestGuard {
    pub fn new(token: Option<Token>, encrypted: bool, control: Option<String>) -> Self {
        let basic = |Token(token)| format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{token}")));
        Self { expected: token.map(basic), encrypted, control }
    }

    /// Returns the secret that permits the page to change something, if it may.
    pub fn control(&self) -> Option<&str> {
        self.control.as_deref()
    }

    /// Checks a request for the page or a part of it.
    pub fn enter(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        match &self.expected {
            // With a password the Host is not checked: another site that points its name here lacks the
            // password.
            Some(expected) if same(text(headers, header::AUTHORIZATION.as_str()), expected) => Ok(()),
            Some(_) => Err(PASSWORD),
            None if is_ours(text(headers, header::HOST.as_str())) => Ok(()),
            None => Err(NAME),
        }
    }

    /// Checks a request that only the page itself may make.
    pub fn follow(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        self.enter(headers)?;
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        let origin = headers.get(header::ORIGIN).map(|origin| origin.as_bytes());
        let scheme = if self.encrypted { "https" } else { "http" };
        let own = format!("{scheme}://{}", text(headers, header::HOST.as_str()));
        let here = site.is_none_or(|site| site == b"same-origin" || site == b"none")
            && origin.is_none_or(|origin| origin.eq_ignore_ascii_case(own.as_bytes()));
        if here { Ok(()) } else { Err(ELSEWHERE) }
    }

    /// Checks a request that changes something.
    pub fn change(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        self.follow(headers)?;
        let control = self.control.as_deref().ok_or(ONLY_SHOWS)?;
        if same(text(headers, CONTROL), control) { Ok(()) } else { Err(OLD) }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns whether a `Host` names this machine by an address or as localhost. The owner of any other
/// name could point it at this machine, and the owner's pages would count as of the same origin (DNS
/// rebinding).
fn is_ours(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Compares two texts in a time that does not depend on where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_name_that_any_site_could_point_here_is_turned_away() {
        let auth = RequestGuard::new(None, false, None);
        for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "[::1]", "127.0.0.1"] {
            assert_eq!(auth.enter(&headers(&[("host", host)])), Ok(()), "{host}");
        }
        for host in ["evil.example:8080", "127.0.0.1.evil.example", "", "[evil]", "localhost.evil.example:1"]
        {
            assert_eq!(auth.enter(&headers(&[("host", host)])), Err(NAME), "{host}");
        }
        assert_eq!(auth.enter(&headers(&[])), Err(NAME));
    }

    #[test]
    fn a_page_with_a_token_shows_nothing_without_the_token() {
        let auth = RequestGuard::new(Some(Token::new("u2Yp0hXlQ8mZb7Rk").unwrap()), true, None);
        let right = format!("Basic {}", BASE64_STANDARD.encode(b"freeblock:u2Yp0hXlQ8mZb7Rk"));
        let wrong = format!("Basic {}", BASE64_STANDARD.encode(b"freeblock:u2Yp0hXlQ8mZb7Rj"));
        assert_eq!(auth.enter(&headers(&[("host", "nas.example"), ("authorization", &right)])), Ok(()));
        for headers in [headers(&[("authorization", &wrong)]), headers(&[("host", "127.0.0.1")])] {
            assert_eq!(auth.enter(&headers), Err(PASSWORD));
            assert_eq!(auth.change(&headers), Err(PASSWORD));
        }
    }

    #[test]
    fn another_site_follows_nothing_and_changes_nothing() {
        let auth = RequestGuard::new(None, false, Some("77".into()));
        let host = ("host", "127.0.0.1:8080");
        let own = ("origin", "http://127.0.0.1:8080");
        assert_eq!(auth.follow(&headers(&[host, own, ("sec-fetch-site", "same-origin")])), Ok(()));
        assert_eq!(auth.follow(&headers(&[host])), Ok(()));
        for foreign in [
            ("origin", "http://evil.example"),
            ("origin", "https://127.0.0.1:8080"),
            ("origin", "http://127.0.0.1:8081"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let headers = headers(&[host, foreign, (CONTROL, "77")]);
            assert_eq!(auth.follow(&headers), Err(ELSEWHERE), "{foreign:?}");
            assert_eq!(auth.change(&headers), Err(ELSEWHERE), "{foreign:?}");
        }
        assert_eq!(auth.change(&headers(&[host, own, (CONTROL, "77")])), Ok(()));
        for missing in [headers(&[host, own]), headers(&[host, own, (CONTROL, "78")])] {
            assert_eq!(auth.change(&missing), Err(OLD));
        }
        let shows = RequestGuard::new(None, false, None);
        assert_eq!(shows.change(&headers(&[host, own, (CONTROL, "")])), Err(ONLY_SHOWS));
    }

    #[test]
    fn a_token_that_could_be_guessed_or_not_be_sent_is_refused() {
        for text in ["", "short", "sixteen letters and a blank", "ümlauts-are-no-ascii", &"x".repeat(257)] {
            assert_eq!(Token::new(text).unwrap_err(), TokenError, "{text}");
        }
    }
}
