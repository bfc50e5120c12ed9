//! The page, which shows a daemon or a demo in a browser, over HTTP/1.1 on a thread of its own. It is off unless it is
//! configured (docs/SERVE.md, "The page").

mod auth;
mod disks;
mod feed;
mod routes;
mod serve;
mod slots;

pub use auth::{Token, TokenError};

use crate::handle::Handle;
use crate::runtime::random_seed;
use crate::tls::Tls;
use auth::RequestGuard;
use feed::Feed;
use serde_json::Value;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::watch;
use tracing::warn;

/// The most browsers that follow the page at once.
pub const BROWSERS_MAX: usize = 32;

/// The configuration of a page.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// The address to listen on. An address that other machines reach needs `token` and `tls`.
    pub listen: SocketAddr,
    /// Whether the page may start scrubs, and pause, resume and cancel tasks.
    pub control: bool,
    /// The password, if the page asks for one.
    pub token: Option<Token>,
    /// The certificate, if the page is encrypted.
    pub tls: Option<Tls>,
    /// The interval between snapshots, which all browsers share; a second by default.
    pub every: Duration,
}

impl WebConfig {
    /// Configures a page that only shows, without password and encryption, for an address of this machine.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, control: false, token: None, tls: None, every: Duration::from_secs(1) }
    }

    /// Checks whether the address may be listened on.
    ///
    /// # Errors
    /// [`WebError::Remote`].
    ///
    /// ```
    /// use server::web::WebConfig;
    /// assert!(WebConfig::new("127.0.0.1:8080".parse()?).check().is_ok());
    /// assert!(WebConfig::new("0.0.0.0:8080".parse()?).check().is_err());
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn check(&self) -> Result<(), WebError> {
        let guarded = self.token.is_some() && self.tls.is_some();
        match self.listen.ip().is_loopback() || guarded {
            true => Ok(()),
            false => Err(WebError::Remote(self.listen)),
        }
    }
}

/// The reason why the page cannot be shown.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WebError {
    /// Other machines reach the address, and there is no password or no encryption.
    #[error(
        "{0} is reached from other machines, and the page there needs both a password and encryption; give a token and a certificate, or listen on 127.0.0.1 and reach the page through ssh -L"
    )]
    Remote(SocketAddr),
    /// The system refused the address.
    #[error("cannot show the page at {address}: {source}; give another address")]
    System {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// A source of snapshots other than disks.
pub trait SnapshotSource: Send + Sync + 'static {
    /// Returns the present state, in the form that docs/SERVE.md describes. Called at most once in each interval of
    /// the page, on the page's thread, and must not block.
    fn snapshot(&self) -> Value;

    /// Executes a request of the page's controls.
    ///
    /// # Errors
    /// The request is invalid; the text says why, and how to correct the request.
    fn set(&self, asked: &Value) -> Result<(), String>;
}

/// The source of a page's snapshots.
pub enum PageContent {
    /// The disks of a daemon.
    Disks(Vec<Handle>),
    /// Another source, such as a demo.
    Other(Arc<dyn SnapshotSource>),
}

impl fmt::Debug for PageContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disks(disks) => f.debug_tuple("Disks").field(disks).finish(),
            Self::Other(_) => f.write_str("Other"),
        }
    }
}

/// A page that is shown. Dropping it closes the page and all browsers' connections.
#[derive(Debug)]
pub struct Web {
    address: SocketAddr,
    encrypted: bool,
    feed: Arc<Feed>,
    stop: Option<watch::Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    /// Shows a page. With port 0 the system chooses the port.
    ///
    /// # Errors
    /// The address is refused, or taken.
    pub fn open(config: WebConfig, shown: PageContent) -> Result<Self, WebError> {
        config.check()?;
        let failed = |source| WebError::System { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let secret = format!("{:032x}", random_seed().map_err(failed)?);
        let encrypted = config.tls.is_some();
        let auth = RequestGuard::new(config.token, encrypted, config.control.then_some(secret));
        let feed = Arc::new(Feed::default());
        let state = routes::RouteState { auth: Arc::new(auth), feed: Arc::clone(&feed) };
        let (stop, stopped) = watch::channel(false);
        let (tls, every) = (config.tls, config.every);
        let thread = Builder::new().name("web".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(serve::serve(listener, tls, state, (shown, every), stopped)),
                Err(error) => warn!(%error, "no page"),
            }
        });
        let thread = Some(thread.map_err(failed)?);
        Ok(Self { address, encrypted, feed, stop: Some(stop), thread })
    }

    /// Returns the address, with the port that the system chose if port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the page.
    pub fn url(&self) -> String {
        format!("http{}://{}/", if self.encrypted { "s" } else { "" }, self.address)
    }

    /// Returns the number of snapshots made since the start: at most one in each interval, for any number of browsers,
    /// and none while there is no browser.
    pub fn snapshots(&self) -> u64 {
        self.feed.made()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has logged that itself.
            let _ = thread.join();
        }
    }
}
