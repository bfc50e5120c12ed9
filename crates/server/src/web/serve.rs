//! Takes browsers in.

use super::routes::{self, RouteState};
use super::{MOST_BROWSERS, PageContent, disks::DiskSnapshots};
use crate::tls::Tls;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::TcpListener as Listener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tracing::warn;

/// The most connections: those of browsers that follow, and as many for parts of the page.
const MOST_CONNECTIONS: usize = 2 * MOST_BROWSERS;
/// The time for a request's head, and for the handshake of encryption.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for a request and the browser's reading of the answer, unless the request follows the snapshots.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of unsent answers that a connection holds.
const MOST_UNSENT: usize = 64 << 10;

/// The most unsent bytes in the kernel: snapshots that a slow browser has not read become outdated there.
const MOST_SENT: usize = 256 << 10;

/// The answer to a connection for which there is no room.
const NO_SLOT_RESPONSE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 92\r\n\
connection: close\r\n\r\n\
{\"error\":{\"message\":\"there are as many connections as may be; close some, and try again\"}}\r\n";

/// Serves the page until it is stopped.
pub(super) async fn serve(
    listener: Listener,
    tls: Option<Tls>,
    state: RouteState,
    (shown, every): (PageContent, Duration),
    mut stopped: watch::Receiver<bool>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(%error, "no page"),
    };
    let feed = Arc::clone(&state.feed);
    let (changes, source) = match shown {
        PageContent::Disks(all) => {
            let all: crate::control::Disks =
                Arc::new(all.into_iter().map(|disk| (disk.facts().name.clone(), disk)).collect());
            (routes::of_disks(Arc::clone(&all)), Source::Disks(DiskSnapshots::new(all)))
        }
        PageContent::Other(show) => (routes::of_other(Arc::clone(&show)), Source::Other(show)),
    };
    let router = routes::router(state, changes);
    tokio::spawn(async move {
        let mut source = source;
        let mut beat = tokio::time::interval(every);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            feed.is_looked_at().await;
            beat.tick().await;
            feed.put(&source.snapshot().await);
        }
    });
    let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let acceptor = tls.map(|tls| TlsAcceptor::from(tls.config()));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Dropping the runtime hangs up on all.
            _ = stopped.changed() => return,
        };
        let Ok((stream, _)) = accepted else {
            // No descriptor is free, for instance: that passes.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // The kernel may refuse; its own bound is there then.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, MOST_SENT);
        match Arc::clone(&slots).try_acquire_owned() {
            Ok(slot) => drop(tokio::spawn(one(stream, acceptor.clone(), router.clone(), slot))),
            Err(_) if acceptor.is_none() => drop(stream.try_write(NO_SLOT_RESPONSE)),
            Err(_) => {}
        }
    }
}

/// One connection.
#[derive(Debug, Default)]
pub(super) struct BrowserConnection {
    hang_up: Notify,
    /// It lasts for as long as its browser likes.
    lasting: AtomicBool,
}

impl BrowserConnection {
    /// Lets the connection last without limit.
    pub fn lasts(&self) {
        self.lasting.store(true, Ordering::Relaxed);
    }

    /// Hangs up, also if an answer is not taken.
    pub fn hang_up(&self) {
        self.hang_up.notify_one();
    }
}

enum Source {
    Disks(DiskSnapshots),
    Other(Arc<dyn super::SnapshotSource>),
}

impl Source {
    async fn snapshot(&mut self) -> String {
        match self {
            Self::Disks(disks) => disks.snapshot().await.to_string(),
            Self::Other(show) => show.snapshot().to_string(),
        }
    }
}

/// Serves one connection, encrypted or not.
async fn one(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    router: axum::Router,
    slot: OwnedSemaphorePermit,
) {
    let _slot = slot;
    match acceptor {
        None => spoken(stream, router).await,
        Some(acceptor) => {
            // A client that does not speak TLS is disconnected.
            if let Ok(Ok(stream)) = tokio::time::timeout(REQUEST_HEAD_TIMEOUT, acceptor.accept(stream)).await
            {
                spoken(stream, router).await;
            }
        }
    }
}

async fn spoken(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: axum::Router) {
    let browser = Arc::new(BrowserConnection::default());
    let router = router.layer(axum::Extension(Arc::clone(&browser)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(MOST_UNSENT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let mut over = std::pin::pin!(tokio::time::sleep(REQUEST_TIMEOUT));
    let mut lasts = false;
    loop {
        tokio::select! {
            // A browser goes when it likes.
            _ = connection.as_mut() => return,
            () = browser.hang_up.notified() => return,
            () = over.as_mut(), if !lasts => {
                lasts = browser.lasting.load(Ordering::Relaxed);
                if !lasts {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_one_too_many_is_whole() {
        let text = std::str::from_utf8(NO_SLOT_RESPONSE).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).unwrap()["error"]["message"].is_string());
    }
}
