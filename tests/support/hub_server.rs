//! A small Hub with a CDN on the loopback address, which can be told to misbehave.
//!
//! One request a connection, a thread each. Each server stops when it is dropped, after a bounded number of
//! connections, and no connection outlives its read timeout.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use sha1::Sha1;
use sha2::{Digest, Sha256};

pub const COMMIT: &str = "607a30d783dfa663caf39e06633721c8d4cfcd7e";

const MOST_CONNECTIONS: usize = 500;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub cdn: bool,
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    /// How many requests with this method and path came before.
    pub nth: usize,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub fn is_weights(&self) -> bool {
        self.cdn && self.method == "GET"
    }

    pub fn is_list(&self) -> bool {
        self.path.contains("/api/models/")
    }
}

/// What is sent back.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// A length other than the body's.
    pub stated_length: Option<u64>,
    /// No length; the body comes in chunks.
    pub chunked: bool,
    /// The connection is closed after so many bytes of the body.
    pub cut_at: Option<usize>,
    /// Nothing is said for so long before the status line.
    pub silence: Duration,
    /// The body comes in pieces with this pause between them.
    pub slow: Duration,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.headers.retain(|(other, _)| other != name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }
}

type Handler = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;
type Log = Arc<Mutex<Vec<Seen>>>;

struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(cdn: bool, log: Log, handler: Handler) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming().take(MOST_CONNECTIONS).flatten() {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let (log, handler, stopped) = (log.clone(), handler.clone(), stopped.clone());
                open.push(std::thread::spawn(move || {
                    // A client that went away is part of the tests.
                    let _ = serve(stream, cdn, &log, &handler, &stopped);
                }));
            }
            for thread in open {
                thread.join().unwrap();
            }
        });
        Self {
            address,
            stop,
            thread: Some(thread),
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    stream: TcpStream,
    cdn: bool,
    log: &Log,
    handler: &Handler,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(&stream).take(64 << 10);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Ok(());
    };
    let (method, path) = (method.to_owned(), path.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let seen = {
        let mut log = log.lock().unwrap();
        let same = |other: &&Seen| other.method == method && other.path == path && other.cdn == cdn;
        let nth = log.iter().filter(same).count();
        let seen = Seen {
            cdn,
            method,
            path,
            headers,
            nth,
        };
        log.push(seen.clone());
        seen
    };
    let reply = handler(&seen);
    sleep(reply.silence, stop);
    send(&stream, &reply, seen.method == "HEAD", stop)
}

fn sleep(length: Duration, stop: &AtomicBool) {
    let step = Duration::from_millis(10);
    let mut slept = Duration::ZERO;
    while slept < length && !stop.load(Ordering::SeqCst) {
        std::thread::sleep(step);
        slept += step;
    }
}

fn send(
    mut stream: &TcpStream,
    reply: &Reply,
    head: bool,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    let mut text = format!("HTTP/1.1 {} Status\r\nConnection: close\r\n", reply.status);
    if reply.chunked {
        text.push_str("Transfer-Encoding: chunked\r\n");
    } else {
        let length = reply.stated_length.unwrap_or(reply.body.len() as u64);
        text.push_str(&format!("Content-Length: {length}\r\n"));
    }
    for (name, value) in &reply.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    stream.write_all(text.as_bytes())?;
    if head {
        return Ok(());
    }
    let end = reply
        .cut_at
        .unwrap_or(reply.body.len())
        .min(reply.body.len());
    for piece in reply.body[..end].chunks(64 << 10) {
        sleep(reply.slow, stop);
        if reply.chunked {
            stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
        }
        stream.write_all(piece)?;
        if reply.chunked {
            stream.write_all(b"\r\n")?;
        }
    }
    if reply.chunked && reply.cut_at.is_none() {
        stream.write_all(b"0\r\n\r\n")?;
    }
    stream.flush()
}

/// A repository's files: name, content, whether it lies on the CDN.
#[derive(Clone, Debug)]
pub struct Repo {
    pub id: String,
    pub commit: String,
    pub files: BTreeMap<String, (Vec<u8>, bool)>,
    etags: BTreeMap<String, String>,
}

impl Repo {
    /// A model that passes for GPT-2, with `numbers` numbers of weights.
    pub fn gpt2(id: &str, numbers: usize) -> Self {
        let mut repo = Self {
            id: id.to_owned(),
            commit: COMMIT.to_owned(),
            files: BTreeMap::new(),
            etags: BTreeMap::new(),
        };
        repo.put(
            "config.json",
            br#"{"model_type":"gpt2","n_layer":1}"#,
            false,
        );
        repo.put("tokenizer.json", br#"{"model":{"type":"BPE"}}"#, false);
        repo.put("generation_config.json", br#"{"eos_token_id":0}"#, false);
        repo.put("README.md", b"# A model", false);
        repo.put("vocab.json", b"{}", false);
        repo.put("tf_model.h5", &[1; 1000], true);
        repo.put("model.safetensors", &safetensors(numbers), true);
        repo
    }

    pub fn put(&mut self, name: &str, bytes: &[u8], large: bool) {
        let etag = if large {
            sha256(bytes)
        } else {
            git_blob_hash(bytes)
        };
        self.etags.insert(name.to_owned(), etag);
        self.files.insert(name.to_owned(), (bytes.to_vec(), large));
    }

    pub fn remove(&mut self, name: &str) {
        self.files.remove(name);
    }

    pub fn bytes(&self, name: &str) -> &[u8] {
        &self.files[name].0
    }

    pub fn etag(&self, name: &str) -> String {
        self.etags[name].clone()
    }

    fn reply(&self, seen: &Seen, cdn_url: &str) -> Reply {
        if seen.cdn {
            return self.cdn_reply(seen);
        }
        if seen
            .path
            .starts_with(&format!("/api/models/{}/revision/", self.id))
        {
            let names: Vec<String> = self
                .files
                .keys()
                .map(|name| {
                    format!(
                        r#"{{"rfilename":{}}}"#,
                        serde_json::to_string(name).unwrap()
                    )
                })
                .collect();
            let names = names.join(",");
            let list = format!(
                r#"{{"id":"{}","sha":"{}","siblings":[{names}],"private":false}}"#,
                self.id, self.commit
            );
            return Reply::status(200).with_body(list);
        }
        let folder = format!("/{}/resolve/{}/", self.id, self.commit);
        let name = seen.path.strip_prefix(&folder).unwrap_or_default();
        let Some((bytes, large)) = self.files.get(name) else {
            return Reply::status(404).with("X-Error-Code", "EntryNotFound");
        };
        let etag = self.etag(name);
        if *large {
            return Reply::status(302)
                .with("X-Repo-Commit", &self.commit)
                .with("X-Linked-Etag", format!("\"{etag}\""))
                .with("X-Linked-Size", bytes.len())
                .with("ETag", "\"not-the-content's\"")
                .with("Location", format!("{cdn_url}/blob/{etag}?signature=1"));
        }
        ranged(bytes, seen)
            .with("X-Repo-Commit", &self.commit)
            .with("ETag", format!("W/\"{etag}\""))
    }

    fn cdn_reply(&self, seen: &Seen) -> Reply {
        self.files
            .iter()
            .find(|(name, (_, large))| *large && seen.path.contains(&self.etag(name)))
            .map_or(Reply::status(404), |(_, (bytes, _))| {
                ranged(bytes, seen).with("ETag", "\"the-cdn's-own-2\"")
            })
    }
}

fn ranged(bytes: &[u8], seen: &Seen) -> Reply {
    let from = seen.header("range").and_then(|range| {
        range
            .strip_prefix("bytes=")?
            .strip_suffix('-')?
            .parse()
            .ok()
    });
    match from {
        None => Reply::status(200).with_body(bytes),
        Some(from) if from < bytes.len() => Reply::status(206)
            .with(
                "Content-Range",
                format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len()),
            )
            .with_body(&bytes[from..]),
        Some(_) => Reply::status(416).with("Content-Range", format!("bytes */{}", bytes.len())),
    }
}

/// Changes replies before they are sent.
pub type Fault = dyn Fn(&Seen, Reply) -> Reply + Send + Sync;

pub struct FakeHub {
    pub repo: Repo,
    log: Log,
    hub: Server,
    _cdn: Server,
}

impl FakeHub {
    pub fn start(
        repo: Repo,
        fault: impl Fn(&Seen, Reply) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let log = Log::default();
        let fault: Arc<Fault> = Arc::new(fault);
        let handler = |cdn_url: String| -> Handler {
            let (repo, fault) = (repo.clone(), fault.clone());
            Arc::new(move |seen: &Seen| fault(seen, repo.reply(seen, &cdn_url)))
        };
        let cdn = Server::start(true, log.clone(), handler(String::new()));
        let hub = Server::start(false, log.clone(), handler(cdn.url()));
        Self {
            repo,
            log,
            hub,
            _cdn: cdn,
        }
    }

    /// Without any fault.
    pub fn sound(repo: Repo) -> Self {
        Self::start(repo, |_, reply| reply)
    }

    pub fn url(&self) -> String {
        self.hub.url()
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.log.lock().unwrap().clone()
    }

    /// Requests for weights.
    pub fn weights_seen(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(Seen::is_weights).collect()
    }
}

/// A file of one tensor, with numbers that do not repeat soon.
pub fn safetensors(numbers: usize) -> Vec<u8> {
    let header = format!(
        r#"{{"wte.weight":{{"dtype":"F32","shape":[{numbers}],"data_offsets":[0,{}]}}}}"#,
        4 * numbers
    );
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..numbers as u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()));
    bytes
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn git_blob_hash(bytes: &[u8]) -> String {
    let head = format!("blob {}\0", bytes.len());
    hex(&Sha1::digest([head.as_bytes(), bytes].concat()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
