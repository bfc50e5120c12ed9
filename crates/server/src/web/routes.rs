//! The routes of the page.

use super::auth::{Rejection, RequestGuard};
use super::feed::{Feed, FeedSubscription};
use super::slots::BrowserConnection;
use super::{BROWSERS_MAX, SnapshotSource, disks};
use crate::control::{Disks, Refusal};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Extension, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The largest body of a request, so that no browser fills the memory.
const BODY_BYTES_MAX: usize = 4 << 10;
/// The most time for a whole body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which a browser that reads nothing is disconnected.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(30);

/// The content security policy: the page loads nothing from other sites, sends nothing to them, and cannot
/// be framed by them.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The state that the routes share.
#[derive(Clone, Debug)]
pub(super) struct RouteState {
    pub auth: Arc<RequestGuard>,
    pub feed: Arc<Feed>,
}

/// Returns the routes of the page itself, together with `changes`, those that change something.
pub(super) fn router(state: RouteState, changes: Router) -> Router {
    let changes = changes
        .layer(from_fn(whole))
        .layer(from_fn_with_state(Arc::clone(&state.auth), change))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    let auth = Arc::clone(&state.auth);
    Router::new()
        .route("/", get(|| part("text/html; charset=utf-8", page::INDEX)))
        .route("/page.css", get(|| part("text/css; charset=utf-8", page::STYLE)))
        .route("/page.js", get(|| part("text/javascript; charset=utf-8", page::SCRIPT)))
        .route("/events", get(events))
        .with_state(state)
        .merge(changes)
        .fallback(async || Refusal::new(StatusCode::NOT_FOUND, "the page has no such part; open /"))
        .layer(from_fn_with_state(auth, enter))
        .layer(from_fn(sealed))
}

/// Returns the routes that change the tasks of disks: start, pause, resume and cancel. The page has no
/// sessions.
pub(super) fn of_disks(all: Disks) -> Router {
    Router::new()
        .route("/v1/disks/{disk}/tasks", post(disks::start))
        .route("/v1/disks/{disk}/tasks/{id}/{what}", post(disks::act))
        .with_state(all)
}

/// Returns the route that changes a source other than disks.
pub(super) fn of_other(show: Arc<dyn SnapshotSource>) -> Router {
    let set = async |State(show): State<Arc<dyn SnapshotSource>>, body: Bytes| {
        let asked: Value = serde_json::from_slice(&body)?;
        show.set(&asked).map_err(|why| Refusal::new(StatusCode::BAD_REQUEST, why))?;
        Ok::<_, Refusal>(axum::Json(json!({})))
    };
    Router::new().route("/v1/set", post(set)).with_state(show)
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let mut response = Refusal::new(self.code, self.why).into_response();
        if self.code == StatusCode::UNAUTHORIZED {
            let ask = HeaderValue::from_static("Basic realm=\"freeblock\", charset=\"UTF-8\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
        }
        response
    }
}

async fn enter(
    State(auth): State<Arc<RequestGuard>>,
    Extension(browser): Extension<Arc<BrowserConnection>>,
    request: Request,
    next: Next,
) -> Response {
    match auth.enter(request.headers()) {
        Ok(()) => {
            // A request that changes something has a body, which has to arrive before the browser counts as
            // entered.
            if request.method() == Method::GET {
                browser.entered();
            }
            next.run(request).await
        }
        Err(rejection) => rejection.into_response(),
    }
}

async fn change(State(auth): State<Arc<RequestGuard>>, request: Request, next: Next) -> Response {
    match auth.change(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(rejection) => rejection.into_response(),
    }
}

/// Lets a request through once its whole body has arrived.
async fn whole(
    Extension(browser): Extension<Arc<BrowserConnection>>,
    request: Request,
    next: Next,
) -> Response {
    use axum::extract::FromRequest;
    let (parts, body) = request.into_parts();
    let all = Bytes::from_request(Request::from_parts(parts.clone(), body), &());
    match tokio::time::timeout(BODY_TIMEOUT, all).await {
        Ok(Ok(body)) => {
            browser.entered();
            next.run(Request::from_parts(parts, Body::from(body))).await
        }
        Ok(Err(error)) => Refusal::new(error.status(), error.body_text()).into_response(),
        Err(_) => {
            let text = "the body did not come in ten seconds; send it with the head";
            Refusal::new(StatusCode::REQUEST_TIMEOUT, text).into_response()
        }
    }
}

/// Adds the headers that forbid a browser to use anything from other sites.
async fn sealed(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

async fn part(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind)], text)
}

/// Sends the page its permissions, and then each snapshot for which the browser is fast enough.
async fn events(
    State(state): State<RouteState>,
    Extension(browser): Extension<Arc<BrowserConnection>>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    state.auth.follow(&headers).map_err(IntoResponse::into_response)?;
    let Some(place) = FeedSubscription::take(&state.feed) else {
        let text =
            format!("{BROWSERS_MAX} browsers follow this page, and no more may; close one, and try again");
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text).into_response());
    };
    let hello = json!({ "version": env!("CARGO_PKG_VERSION"), "control": state.auth.control() });
    let mut snapshots = place.receiver();
    let (sender, receiver) = mpsc::channel(1);
    browser.lasts();
    tokio::spawn(async move {
        let _place = place;
        let mut next = Bytes::from(format!("event: hello\ndata: {hello}\n\n"));
        while let Ok(()) = sender.send_timeout(next, BROWSER_TIMEOUT).await {
            let changed = tokio::select! {
                changed = snapshots.changed() => changed.is_ok(),
                () = sender.closed() => false,
            };
            if !changed {
                break;
            }
            next = snapshots.borrow_and_update().clone();
        }
        browser.hang_up();
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((kind, Body::from_stream(Chunks(receiver))).into_response())
}

/// The receiving end of a channel, as a stream.
struct Chunks(mpsc::Receiver<Bytes>);

impl futures_core::Stream for Chunks {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_reason_for_unused_gaps_is_in_words_on_the_page() {
        for caution in scheduler::Caution::ALL {
            assert!(page::SCRIPT.contains(&format!("\n  {}: \"", caution.name())), "{caution:?}");
        }
    }
}
