//! The weight files of a model as one table of tensors that can be read a piece at a time.
//!
//! Owns the choice of files in a folder, shards, and the conversion to f32. It knows nothing of
//! GPT-2 beyond the `transformer.` prefix; the formats are in `safetensors_header` and
//! `pytorch_file`. Nothing is mapped into memory: a tensor is read in pieces of at most [`PIECE`]
//! bytes, so that loading holds the weights and little else.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::File,
    io::{Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use half::{bf16, f16};
use safetensors::Dtype;
use serde::Deserialize;

use super::{
    error::ModelError, pytorch_file::find_tensors, safetensors_header::read_header,
    source::read_small_text,
};

/// How much is read at once.
const PIECE: usize = 1 << 20;
/// One file with all weights, the better format first.
const SINGLE: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];
/// Which shard holds which tensor.
const INDEX: [&str; 2] = [
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
];

trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

/// Order of a tensor's values in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Row after row, the only order that safetensors knows.
    Rows,
    /// Column after column: a transposed view of a matrix.
    Columns,
    /// Any other view.
    Scattered,
}

/// Where one tensor lies in its file.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    /// Byte position from the start of the file.
    pub start: u64,
    pub layout: Layout,
}

struct Entry {
    file: usize,
    placed: Placed,
}

struct OneFile {
    name: String,
    path: PathBuf,
    reader: Box<dyn ReadSeek>,
}

/// All tensors of a checkpoint by name, without the `transformer.` prefix.
pub(crate) struct TensorFiles {
    files: Vec<OneFile>,
    entries: BTreeMap<String, Entry>,
    /// Weight files of the folder that no index names and that were therefore not opened.
    pub strays: Vec<String>,
    buffer: Vec<u8>,
}

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: HashMap<String, String>,
}

impl TensorFiles {
    /// Open the weight files of a model folder: one file, or an index with its shards; safetensors
    /// where there are both formats.
    ///
    /// # Errors
    /// Where there are no weights, a shard is missing, the index does not fit the shards, or a
    /// file is damaged. A file that no index names is not opened.
    pub fn open_folder(folder: &Path) -> Result<Self, ModelError> {
        for (single, index) in SINGLE.into_iter().zip(INDEX) {
            let path = folder.join(single);
            if path.is_file() {
                let mut files = Self::empty();
                files.add(single.into(), &path)?;
                return Ok(files);
            }
            let path = folder.join(index);
            if path.is_file() {
                return Self::open_shards(folder, index, &path);
            }
        }
        match shards_in(folder).into_iter().next() {
            Some(shard) => Err(ModelError::NoIndex {
                folder: folder.into(),
                index: INDEX[usize::from(shard.ends_with(".bin"))],
                shard,
            }),
            None => Err(ModelError::NoWeights(folder.into())),
        }
    }

    /// Read from a file that is part of the program.
    pub fn from_bytes(name: &str, bytes: &'static [u8]) -> Result<Self, ModelError> {
        let mut files = Self::empty();
        let mut reader = Cursor::new(bytes);
        let placed = read_header(name, Path::new(name), &mut reader, bytes.len() as u64)?;
        files.enter(name.into(), name.into(), Box::new(reader), placed)?;
        Ok(files)
    }

    fn empty() -> Self {
        Self {
            files: Vec::new(),
            entries: BTreeMap::new(),
            strays: Vec::new(),
            buffer: Vec::new(),
        }
    }

    fn open_shards(folder: &Path, index: &'static str, path: &Path) -> Result<Self, ModelError> {
        let text = read_small_text(path)?;
        let bad = |problem| ModelError::Index { index, problem };
        let ShardIndex { weight_map } =
            serde_json::from_str(&text).map_err(|e| bad(format!("not a shard index ({e})")))?;
        let shards: BTreeSet<&String> = weight_map.values().collect();
        let mut files = Self::empty();
        for &shard in &shards {
            // The index is untrusted: a name that leaves the folder is not opened.
            if Path::new(shard).file_name().and_then(|n| n.to_str()) != Some(shard) {
                return Err(bad(format!(
                    "\"{shard}\" is not a file name inside the folder"
                )));
            }
            let path = folder.join(shard);
            if !path.is_file() {
                return Err(ModelError::MissingShard {
                    index,
                    shard: shard.clone(),
                });
            }
            files.add(shard.clone(), &path)?;
        }
        let same_format = |name: &String| name.ends_with(".bin") == index.starts_with("pytorch");
        files.strays = shards_in(folder);
        files
            .strays
            .retain(|name| same_format(name) && !shards.contains(name));
        for (name, shard) in &weight_map {
            let held = files
                .entries
                .get(bare(name))
                .is_some_and(|e| files.files[e.file].name == *shard);
            if !held {
                return Err(ModelError::StaleIndex {
                    index,
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
        let mut file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let placed = if name.ends_with(".safetensors") {
            read_header(&name, path, &mut file, length)?
        } else {
            let file = file.try_clone().map_err(io)?;
            find_tensors(file, length).map_err(|problem| ModelError::Pytorch {
                file: name.clone(),
                problem,
            })?
        };
        self.enter(name, path.into(), Box::new(file), placed)
    }

    fn enter(
        &mut self,
        name: String,
        path: PathBuf,
        reader: Box<dyn ReadSeek>,
        tensors: Vec<(String, Placed)>,
    ) -> Result<(), ModelError> {
        let file = self.files.len();
        for (tensor, placed) in tensors {
            let key = bare(&tensor).to_owned();
            let entry = Entry { file, placed };
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
            .map_or_else(|| SINGLE[0].to_owned(), |f| f.name.clone())
    }

    /// Bytes that `name` takes in its file.
    pub fn bytes_of(&self, name: &str) -> u64 {
        self.entries.get(name).map_or(0, |e| {
            let values: u64 = e.placed.shape.iter().map(|&n| n as u64).product();
            values * e.placed.dtype.bitsize() as u64 / 8
        })
    }

    /// The shape of `name`, if it is there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        Some(&self.entries.get(name)?.placed.shape)
    }

    /// Whether any piece of `name` can be read without reading the whole.
    pub fn is_in_rows(&self, name: &str) -> bool {
        self.entries
            .get(name)
            .is_some_and(|e| e.placed.layout == Layout::Rows)
    }

    /// Check that `name` is there with this shape and a type that can be read.
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<(), ModelError> {
        let file = self.file_of(name);
        let Some(Entry { placed: entry, .. }) = self.entries.get(name) else {
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
        if entry.layout == Layout::Scattered {
            return Err(ModelError::Scattered {
                file,
                name: name.into(),
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
        if let (Layout::Columns, &[rows, columns]) =
            (entry.placed.layout, entry.placed.shape.as_slice())
        {
            let mut all = Vec::new();
            self.read_in_order(name, 0, rows * columns, &mut all, on_piece)?;
            out.extend((first..first + count).map(|i| all[i % columns * rows + i / columns]));
            return Ok(());
        }
        self.read_in_order(name, first, count, out, on_piece)
    }

    /// As [`Self::read`], in the order of the file.
    fn read_in_order(
        &mut self,
        name: &str,
        first: usize,
        count: usize,
        out: &mut Vec<f32>,
        on_piece: &mut dyn FnMut(u64) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let Some(Entry {
            file,
            placed: entry,
        }) = self.entries.get(name)
        else {
            return Ok(());
        };
        let width = entry.dtype.bitsize() / 8;
        let file = &mut self.files[*file];
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

/// The files in `folder` that are named like shards, in order.
fn shards_in(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut shards: Vec<String> = names
        .filter(|name| {
            name.contains("-of-")
                && (name.starts_with("model-") && name.ends_with(".safetensors")
                    || name.starts_with("pytorch_model-") && name.ends_with(".bin"))
        })
        .collect();
    shards.sort();
    shards
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
