//! The options of the page.

use crate::files;
use crate::problem::Problem;
use clap::Args;
use serde::Deserialize;
use server::Tls;
use server::web::{Token, WebConfig};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// The page's flags.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WebArgs {
    /// Show the page for browsers at this address: disks, tasks and what they cost; elsewhere than on this machine only with --web-token and --web-certificate
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = DEFAULT, value_parser = address)]
    pub(crate) web: Option<SocketAddr>,
    /// Let the page start scrubs, and pause, resume and cancel tasks, for every user that can open the page
    #[arg(long, requires = "web")]
    pub(crate) web_control: bool,
    /// A file with the password of the page, of 16 characters or more; the user is freeblock
    #[arg(long, value_name = "FILE", requires = "web")]
    pub(crate) web_token: Option<PathBuf>,
    /// Encrypt the page with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["web", "web_key"])]
    pub(crate) web_certificate: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "web_certificate")]
    pub(crate) web_key: Option<PathBuf>,
}

/// The default address of the page.
pub(crate) const DEFAULT: &str = "127.0.0.1:8080";

/// Reads an address.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no address with a port; give one as {DEFAULT} or [::1]:8080"))
}

/// The table `[web]`, parsed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WebText {
    pub(super) listen: Option<Spanned<String>>,
    control: Option<bool>,
    token: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// The page's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebOptions {
    pub(crate) listen: SocketAddr,
    control: bool,
    token: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    /// A hash of the files' content, which shows a reload that a file has changed.
    content: u64,
}

impl WebArgs {
    /// Returns the options, if a page is asked for.
    pub(super) fn options(&self) -> Option<WebOptions> {
        let Self { web, web_control, web_token, web_certificate, web_key } = self.clone();
        let (token, certificate, key) = (web_token, web_certificate, web_key);
        let options =
            |listen| WebOptions { listen, control: web_control, token, certificate, key, content: 0 };
        web.map(|listen| options(listen).with_content())
    }
}

impl WebText {
    /// Returns the options, if a page is asked for.
    pub(super) fn options(self, place: &super::source::Source<'_>) -> Result<Option<WebOptions>, Problem> {
        let Self { listen, control, token, certificate, key } = self;
        let Some(listen) = listen else { return Ok(None) };
        let control = control.unwrap_or(false);
        let listen = place.parsed(&listen, address)?;
        let options = WebOptions { listen, control, token, certificate, key, content: 0 };
        Ok(Some(options.with_content()))
    }
}

impl WebOptions {
    fn with_content(mut self) -> Self {
        let mut hasher = DefaultHasher::new();
        self.files().for_each(|path| files::read(&path).ok().hash(&mut hasher));
        self.content = hasher.finish();
        self
    }

    /// Returns the files that the options name.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        [&self.token, &self.certificate, &self.key].into_iter().flatten().cloned()
    }

    /// Reads the files of the page's password, certificate and key.
    ///
    /// # Errors
    /// A file cannot be used, or the address requires a file that is not given.
    pub(super) fn read(&self) -> Result<WebConfig, Problem> {
        let tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                Some(Tls::from_files(certificate, key, None, true).map_err(Problem::failed)?)
            }
            (None, None) => None,
            _ => {
                let problem = Problem::usage("the page's certificate and its key belong together");
                return Err(problem.help("give both, or neither"));
            }
        };
        let token = self.token.as_deref().map(token).transpose()?;
        let config = WebConfig { control: self.control, token, tls, ..WebConfig::new(self.listen) };
        config.check().map_err(Problem::usage)?;
        Ok(config)
    }
}

fn token(path: &Path) -> Result<Token, Problem> {
    let text = files::read(path)?;
    let wrong = |error| Problem::failed(format!("{}: {error}", path.display()));
    Token::new(&String::from_utf8_lossy(&text)).map_err(wrong)
}
