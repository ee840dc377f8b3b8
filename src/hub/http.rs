//! Requests to the Hub: addresses, redirects, the token, and a sentence for each status.
//!
//! Redirects are followed here and not by the HTTP client, because the token must not leave the Hub's own
//! host, an encrypted connection must not become an open one, and the Hub states a file's checksum on the
//! redirect to its CDN. Blocking; runs on the thread that downloads.
//!
//! Facts about the protocol are from huggingface_hub's documentation: `X-Repo-Commit`, `X-Linked-Etag`,
//! `X-Linked-Size`, `X-Error-Code`.

use std::time::Duration;

use ureq::{
    Agent, Body,
    http::{Response, StatusCode, Uri, header},
};

use super::{HubError, RepoId, checksum::Checksum};

/// Most redirects that are followed for one request.
const MOST_REDIRECTS: usize = 10;

/// How long to wait, and how often to try again.
#[derive(Clone, Debug)]
pub struct Patience {
    pub connect: Duration,
    /// Longest silence while an answer or its body is awaited.
    pub silence: Duration,
    /// Failures in a row that end a download.
    pub tries: u32,
    /// Wait after the first failure; doubles with each further one.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            silence: Duration::from_secs(30),
            tries: 5,
            pause: Duration::from_millis(500),
        }
    }
}

/// What the server says about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileFacts {
    /// The name of its blob: a SHA-256 for large files, a git hash for small ones.
    pub etag: String,
    pub size: u64,
}

impl FileFacts {
    /// What the content has to sum up to.
    pub fn checksum(&self) -> Checksum {
        Checksum::new(&self.etag, self.size)
    }
}

/// A Hub at one address.
pub(super) struct Client {
    agent: Agent,
    endpoint: Uri,
    token: Option<String>,
}

/// What a request is about, for its sentences.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub repo: &'a RepoId,
    pub revision: &'a str,
    /// `None` for the list of files.
    pub file: Option<&'a str>,
}

impl Client {
    /// `endpoint` is an http or https address without a path at its end.
    pub fn new(endpoint: &Uri, token: Option<&str>, patience: &Patience) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // Lengths and ranges are those of the file, not of a compressed form of it.
            .accept_encoding("identity")
            .user_agent(concat!("logitscope/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(patience.connect))
            .timeout_recv_response(Some(patience.silence))
            .timeout_per_read(Some(patience.silence));
        // A Hub on this very computer is not behind a proxy.
        let config = if is_loopback(endpoint) {
            config.proxy(None)
        } else {
            config
        };
        Self {
            agent: config.build().new_agent(),
            endpoint: endpoint.clone(),
            token: token.map(str::to_owned),
        }
    }

    pub fn host(&self) -> String {
        host(&self.endpoint)
    }

    /// The address of a page of the Hub.
    pub fn page(&self, path: &str) -> String {
        let endpoint = self.endpoint.to_string();
        format!("{}/{path}", endpoint.trim_end_matches('/'))
    }

    /// Asks for `path`, from byte `from` on, following redirects wherever they lead.
    pub fn get(&self, path: &str, from: u64, about: About) -> Result<Response<Body>, HubError> {
        let mut uri = self.uri(path)?;
        for _ in 0..=MOST_REDIRECTS {
            let request = self.agent.get(&uri);
            let request = match from {
                0 => request,
                from => request.header(header::RANGE, format!("bytes={from}-")),
            };
            let response = match self.token_for(&uri) {
                Some(token) => request.header(header::AUTHORIZATION, token).call(),
                None => request.call(),
            };
            let response = response.map_err(|error| failure(error, &uri))?;
            let Some(next) = self.redirect(&response, &uri)? else {
                return self.checked(response, &uri, about);
            };
            uri = next;
        }
        Err(HubError::RedirectLoop { host: host(&uri) })
    }

    /// Asks what the server says about a file.
    pub fn facts(&self, path: &str, about: About) -> Result<FileFacts, HubError> {
        let mut uri = self.uri(path)?;
        for _ in 0..=MOST_REDIRECTS {
            let request = self.agent.head(&uri);
            let response = match self.token_for(&uri) {
                Some(token) => request.header(header::AUTHORIZATION, token).call(),
                None => request.call(),
            };
            let response = response.map_err(|error| failure(error, &uri))?;
            // The redirect to a CDN states the facts; what the CDN says about itself does not count.
            let linked = response.headers().contains_key("x-linked-etag");
            let next = self.redirect(&response, &uri)?;
            if let (Some(next), false) = (next, linked) {
                uri = next;
                continue;
            }
            let response = if linked && response.status().is_redirection() {
                response
            } else {
                self.checked(response, &uri, about)?
            };
            return read_facts(&response).map_err(|problem| HubError::BadReply {
                host: host(&uri),
                problem: format!("{} for {}", problem, about.file.unwrap_or("a file")),
            });
        }
        Err(HubError::RedirectLoop { host: host(&uri) })
    }

    fn uri(&self, path: &str) -> Result<Uri, HubError> {
        self.page(path).parse().map_err(|_| HubError::BadReply {
            host: self.host(),
            problem: "an address that cannot be asked for".to_owned(),
        })
    }

    /// The token goes to the Hub's own address and nowhere else.
    fn token_for(&self, uri: &Uri) -> Option<String> {
        let token = self.token.as_ref()?;
        (origin(uri) == origin(&self.endpoint)).then(|| format!("Bearer {token}"))
    }

    /// Where a redirect leads; `None` where the response is none.
    fn redirect(&self, response: &Response<Body>, from: &Uri) -> Result<Option<Uri>, HubError> {
        if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let bad = |problem: &str| HubError::BadReply {
            host: host(from),
            problem: problem.to_owned(),
        };
        let location = text(response, "location").ok_or_else(|| bad("a redirect to nowhere"))?;
        let next = resolve(from, location).ok_or_else(|| bad("a redirect to no address"))?;
        if from.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
            return Err(HubError::Downgrade { host: host(from) });
        }
        Ok(Some(next))
    }

    /// The response, where its status is a good one.
    fn checked(
        &self,
        response: Response<Body>,
        uri: &Uri,
        about: About,
    ) -> Result<Response<Body>, HubError> {
        let (repo, host) = (about.repo.clone(), host(uri));
        let status = response.status();
        let code = text(&response, "x-error-code").unwrap_or_default();
        let has_token = self.token.is_some();
        Err(match (status.as_u16(), code) {
            (200 | 206 | 416, _) => return Ok(response),
            (401 | 403, "GatedRepo") => HubError::Gated {
                page: self.page(&repo.to_string()),
                repo,
            },
            (404, "RevisionNotFound") => HubError::NoRevision {
                repo,
                revision: about.revision.to_owned(),
            },
            // Without a token the Hub answers 401 for a name that does not exist, too.
            (_, "RepoNotFound") => HubError::NoModel { repo, host },
            (401, _) if has_token => HubError::TokenRefused { host },
            (401, _) => HubError::NoModel { repo, host },
            (403, _) => HubError::Forbidden { repo, host },
            (404 | 410, _) => match about.file {
                Some(file) => HubError::NoFile {
                    repo,
                    file: file.to_owned(),
                    host,
                },
                None => HubError::NoModel { repo, host },
            },
            (408, _) => HubError::TimedOut { host },
            (429, _) => HubError::TooMany { host },
            (status @ 500.., _) => HubError::Server { host, status },
            (status, _) => HubError::BadReply {
                host,
                problem: format!("status {status}"),
            },
        })
    }
}

fn read_facts(response: &Response<Body>) -> Result<FileFacts, &'static str> {
    let etag = text(response, "x-linked-etag")
        .or_else(|| text(response, "etag"))
        .ok_or("no ETag")?;
    let etag = etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"');
    if !super::repo::is_file_name(etag) {
        return Err("an unusable ETag");
    }
    let size = text(response, "x-linked-size")
        .or_else(|| text(response, "content-length"))
        .and_then(|size| size.parse().ok())
        .ok_or("no length")?;
    Ok(FileFacts {
        etag: etag.to_owned(),
        size,
    })
}

/// A header's value.
pub(super) fn text<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// The sentence for a request that had no answer.
fn failure(error: ureq::Error, uri: &Uri) -> HubError {
    let host = host(uri);
    match error {
        ureq::Error::HostNotFound => HubError::HostNotFound { host },
        ureq::Error::Timeout(_) => HubError::TimedOut { host },
        ureq::Error::Tls(cause) => HubError::Insecure {
            host,
            cause: cause.to_owned(),
        },
        ureq::Error::Rustls(cause) => HubError::Insecure {
            host,
            cause: cause.to_string(),
        },
        ureq::Error::TlsRequired => HubError::Downgrade { host },
        ureq::Error::Protocol(cause) => HubError::BadReply {
            host,
            problem: cause.to_string(),
        },
        ureq::Error::Io(cause) if cause.kind() == std::io::ErrorKind::TimedOut => {
            HubError::TimedOut { host }
        }
        // A certificate that does not hold comes up while the connection is written to.
        ureq::Error::Io(cause) if cause.kind() == std::io::ErrorKind::InvalidData => {
            HubError::Insecure {
                host,
                cause: cause.to_string(),
            }
        }
        ureq::Error::Io(cause) => HubError::Unreachable {
            host,
            cause: cause.to_string(),
        },
        other => HubError::Unreachable {
            host,
            cause: other.to_string(),
        },
    }
}

/// Scheme, host and port: what a token may be sent to.
fn origin(uri: &Uri) -> Option<(&str, String, u16)> {
    let scheme = uri.scheme_str()?;
    let port = match (uri.port_u16(), scheme) {
        (Some(port), _) => port,
        (None, "https") => 443,
        (None, _) => 80,
    };
    Some((scheme, uri.host()?.to_ascii_lowercase(), port))
}

fn host(uri: &Uri) -> String {
    uri.host().unwrap_or_default().to_owned()
}

fn is_loopback(uri: &Uri) -> bool {
    let host = host(uri);
    host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// The address that `location` means on the page `from`; http and https only.
fn resolve(from: &Uri, location: &str) -> Option<Uri> {
    let scheme = from.scheme_str()?;
    let authority = from.authority()?;
    let whole = if location.contains("://") {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let folder = from
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let uri: Uri = whole.parse().ok()?;
    (matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()).then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().expect("an address")
    }

    #[test]
    fn a_location_is_read_as_a_browser_would() {
        let from = uri("https://hub.test/a/resolve/x");
        for (location, wanted) in [
            ("https://cdn.test/y?z=1", "https://cdn.test/y?z=1"),
            ("//cdn.test/y", "https://cdn.test/y"),
            ("/b/resolve/x", "https://hub.test/b/resolve/x"),
            ("y", "https://hub.test/a/resolve/y"),
        ] {
            assert_eq!(resolve(&from, location), Some(uri(wanted)), "{location}");
        }
        assert_eq!(resolve(&from, "file:///etc/passwd"), None);
        assert_eq!(resolve(&from, "ftp://cdn.test/y"), None);
    }

    #[test]
    fn a_secure_address_never_leads_to_an_open_one() {
        let client = Client::new(&uri("https://hub.test"), None, &Patience::default());
        let redirect = |from: &str, location: &str| {
            let response = Response::builder()
                .status(302)
                .header("location", location)
                .body(Body::builder().data(Vec::new()))
                .expect("a response");
            client.redirect(&response, &uri(from))
        };
        let secure = "https://hub.test/a";
        let refused = redirect(secure, "http://cdn.test/b").expect_err("open");
        assert!(
            matches!(&refused, HubError::Downgrade { host } if host == "hub.test"),
            "{refused}"
        );
        for (from, location) in [
            (secure, "https://cdn.test/b"),
            ("http://127.0.0.1/a", "http://127.0.0.1/b"),
            ("http://127.0.0.1/a", "https://cdn.test/b"),
        ] {
            let next = redirect(from, location).expect("an address");
            assert_eq!(next, Some(uri(location)));
        }
    }

    #[test]
    fn the_token_stays_with_its_host() {
        let client = Client::new(
            &uri("https://hub.test"),
            Some("secret"),
            &Patience::default(),
        );
        let sent = |address: &str| client.token_for(&uri(address)).is_some();
        assert!(sent("https://hub.test/x"));
        assert!(sent("https://HUB.test:443/x"));
        assert!(!sent("https://cdn.test/x"));
        assert!(!sent("http://hub.test/x"));
        assert!(!sent("https://hub.test:444/x"));
        assert!(!sent("https://hub.test.evil.test/x"));
    }
}
