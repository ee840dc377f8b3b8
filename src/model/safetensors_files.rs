//! Safetensors files as a table of tensors that can be read one piece at a time.
//!
//! Owns headers, shards and the conversion to f32. It knows nothing of GPT-2 beyond the
//! `transformer.` prefix. Nothing is mapped into memory: a tensor is read in pieces of at most
//! [`PIECE`] bytes, so that loading holds the weights and little else.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::File,
    io::{Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use half::{bf16, f16};
use safetensors::{Dtype, tensor::Metadata};
use serde::Deserialize;

use super::{error::ModelError, source::read_small_text};

/// How much is read at once.
const PIECE: usize = 1 << 20;
/// Headers list a few hundred tensors; the format itself allows 100 MB.
const MAX_HEADER: u64 = 100_000_000;
const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

/// Where one tensor lies.
#[derive(Debug, Clone)]
struct Entry {
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    /// Byte position from the start of the file.
    start: u64,
}

struct OneFile {
    name: String,
    path: PathBuf,
    reader: Box<dyn ReadSeek>,
}

/// All tensors of a checkpoint by name, without the `transformer.` prefix.
pub(crate) struct SafetensorsFiles {
    files: Vec<OneFile>,
    entries: BTreeMap<String, Entry>,
    buffer: Vec<u8>,
}

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: HashMap<String, String>,
}

impl SafetensorsFiles {
    /// Open the safetensors files of a model folder: one file, or an index with its shards.
    pub fn open_folder(folder: &Path) -> Result<Self, ModelError> {
        let single = folder.join(SINGLE);
        if single.is_file() {
            let mut files = Self::empty();
            files.add(SINGLE.into(), &single)?;
            return Ok(files);
        }
        let index = folder.join(INDEX);
        if index.is_file() {
            return Self::open_shards(folder, &index);
        }
        let has = |name: &str| folder.join(name).exists();
        if has("pytorch_model.bin") || has("pytorch_model.bin.index.json") {
            Err(ModelError::OnlyPytorch(folder.into()))
        } else {
            Err(ModelError::NoWeights(folder.into()))
        }
    }

    /// Read from a file that is part of the program.
    pub fn from_bytes(name: &str, bytes: &'static [u8]) -> Result<Self, ModelError> {
        let mut files = Self::empty();
        files.add_reader(
            name.into(),
            name.into(),
            Box::new(Cursor::new(bytes)),
            bytes.len() as u64,
        )?;
        Ok(files)
    }

    fn empty() -> Self {
        Self {
            files: Vec::new(),
            entries: BTreeMap::new(),
            buffer: Vec::new(),
        }
    }

    fn open_shards(folder: &Path, index: &Path) -> Result<Self, ModelError> {
        let text = read_small_text(index)?;
        let ShardIndex { weight_map } = serde_json::from_str(&text)
            .map_err(|e| ModelError::Index(format!("not a shard index ({e})")))?;
        let shards: BTreeSet<&String> = weight_map.values().collect();
        let mut files = Self::empty();
        for &shard in &shards {
            // The index is untrusted: a name that leaves the folder is not opened.
            if Path::new(shard).file_name().and_then(|n| n.to_str()) != Some(shard) {
                return Err(ModelError::Index(format!(
                    "\"{shard}\" is not a file name inside the folder"
                )));
            }
            let path = folder.join(shard);
            if !path.is_file() {
                return Err(ModelError::MissingShard {
                    shard: shard.clone(),
                });
            }
            files.add(shard.clone(), &path)?;
        }
        for (name, shard) in &weight_map {
            let held = files
                .entries
                .get(bare(name))
                .is_some_and(|e| files.files[e.file].name == *shard);
            if !held {
                return Err(ModelError::StaleIndex {
                    shard: shard.clone(),
                    name: name.clone(),
                });
            }
        }
        Ok(files)
    }

    fn add(&mut self, name: String, path: &Path) -> Result<(), ModelError> {
        let io = |source| ModelError::Io {
            path: path.into(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        self.add_reader(name, path.into(), Box::new(file), length)
    }

    /// Read a header and enter its tensors. `length` is the size of the file in bytes.
    fn add_reader(
        &mut self,
        name: String,
        path: PathBuf,
        mut reader: Box<dyn ReadSeek>,
        length: u64,
    ) -> Result<(), ModelError> {
        let bad = |problem: String| ModelError::Header {
            file: name.clone(),
            problem,
        };
        let io = |source| ModelError::Io {
            path: path.clone(),
            source,
        };
        let truncated = |expected: u64| ModelError::Truncated {
            file: name.clone(),
            expected,
            found: length,
        };
        if length < 8 {
            return Err(bad(format!("it has only {length} bytes")));
        }
        let mut size = [0; 8];
        reader.read_exact(&mut size).map_err(io)?;
        let header_bytes = u64::from_le_bytes(size);
        if header_bytes > MAX_HEADER {
            return Err(bad(format!("its header claims {header_bytes} bytes")));
        }
        if header_bytes > length - 8 {
            return Err(truncated(8 + header_bytes));
        }
        let mut header = vec![0; header_bytes as usize];
        reader.read_exact(&mut header).map_err(io)?;
        // This also checks that offsets are gapless and fit shapes and types.
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|e| bad(format!("its header cannot be read ({e})")))?;
        let data_start = 8 + header_bytes;
        let expected = data_start.saturating_add(metadata.data_len() as u64);
        if expected > length {
            return Err(truncated(expected));
        }
        if expected < length {
            return Err(ModelError::Overlong {
                file: name,
                expected,
                found: length,
            });
        }

        let file = self.files.len();
        for (tensor, info) in metadata.tensors() {
            let entry = Entry {
                file,
                dtype: info.dtype,
                shape: info.shape.clone(),
                start: data_start + info.data_offsets.0 as u64,
            };
            let key = bare(&tensor).to_owned();
            if self.entries.insert(key.clone(), entry).is_some() {
                return Err(ModelError::DuplicateTensor {
                    file: name,
                    name: key,
                });
            }
        }
        self.files.push(OneFile { name, path, reader });
        Ok(())
    }

    /// Names in order, without the `transformer.` prefix.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The file that holds `name`, or the one a reader would look into.
    pub fn file_of(&self, name: &str) -> String {
        let file = self.entries.get(name).map_or(0, |e| e.file);
        self.files
            .get(file)
            .map_or_else(|| SINGLE.to_owned(), |f| f.name.clone())
    }

    /// Bytes that `name` takes in its file.
    pub fn bytes_of(&self, name: &str) -> u64 {
        self.entries.get(name).map_or(0, |e| {
            e.shape.iter().map(|&n| n as u64).product::<u64>() * e.dtype.bitsize() as u64 / 8
        })
    }

    /// Check that `name` is there with this shape and a type that can be read.
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<(), ModelError> {
        let file = self.file_of(name);
        let Some(entry) = self.entries.get(name) else {
            return Err(ModelError::MissingTensor {
                file,
                name: name.into(),
            });
        };
        if entry.shape != shape {
            return Err(ModelError::Shape {
                file,
                name: name.into(),
                expected: shape.into(),
                found: entry.shape.clone(),
            });
        }
        if !matches!(entry.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            return Err(ModelError::Dtype {
                file,
                name: name.into(),
                dtype: format!("{:?}", entry.dtype),
            });
        }
        Ok(())
    }

    /// Append `count` values of `name` from `first` on to `out`, as f32.
    ///
    /// `on_piece` is told the bytes read after each piece and may stop the reading.
    pub fn read(
        &mut self,
        name: &str,
        first: usize,
        count: usize,
        out: &mut Vec<f32>,
        on_piece: &mut dyn FnMut(u64) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let Some(entry) = self.entries.get(name) else {
            return Err(ModelError::MissingTensor {
                file: self.file_of(name),
                name: name.into(),
            });
        };
        let width = entry.dtype.bitsize() / 8;
        let file = &mut self.files[entry.file];
        let io = |source| ModelError::Io {
            path: file.path.clone(),
            source,
        };
        let start = entry.start + (first * width) as u64;
        file.reader.seek(SeekFrom::Start(start)).map_err(io)?;
        out.reserve_exact(count);
        let mut left = count * width;
        while left > 0 {
            let bytes = left.min(PIECE);
            self.buffer.resize(bytes, 0);
            file.reader.read_exact(&mut self.buffer).map_err(io)?;
            append_f32(entry.dtype, &self.buffer, out);
            left -= bytes;
            on_piece(bytes as u64)?;
        }
        Ok(())
    }
}

/// Checkpoints saved from `GPT2LMHeadModel` prefix every tensor but the head.
fn bare(name: &str) -> &str {
    name.strip_prefix("transformer.").unwrap_or(name)
}

/// Little-endian values of `dtype`, which [`SafetensorsFiles::check`] has let through.
fn append_f32(dtype: Dtype, bytes: &[u8], out: &mut Vec<f32>) {
    match dtype {
        Dtype::F16 => {
            let (values, _) = bytes.as_chunks::<2>();
            out.extend(values.iter().map(|&b| f16::from_le_bytes(b).to_f32()));
        }
        Dtype::BF16 => {
            let (values, _) = bytes.as_chunks::<2>();
            out.extend(values.iter().map(|&b| bf16::from_le_bytes(b).to_f32()));
        }
        _ => {
            let (values, _) = bytes.as_chunks::<4>();
            out.extend(values.iter().map(|&b| f32::from_le_bytes(b)));
        }
    }
}
