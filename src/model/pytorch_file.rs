//! `pytorch_model.bin`: where the numbers of each tensor lie in a file that `torch.save` wrote.
//!
//! Owns the two containers, the ZIP archive of PyTorch 1.6 and later and the stream of pickles
//! before it. Only the list of tensors is read here; sizes are checked against the file before
//! anything of that size is allocated. The crate for the whole job, pytorch-reader 0.22.1, would
//! turn on a feature of indexmap that most of this program's dependencies are built without, and
//! returns whole tensors only; `rawzip` finds the entries, the rest is little.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    rc::Rc,
};

use rawzip::{RECOMMENDED_BUFFER_SIZE, ZipArchive};
use safetensors::Dtype;

use super::{
    pickle::{Member, PickledTensor, Storage, Value, read_pickle},
    tensor_files::{Layout, Placed},
};

/// A list of tensors takes some 100 bytes for each.
const MAX_PICKLE: u64 = 16 << 20;
const MAX_ENTRIES: usize = 1 << 16;
/// The pickle of the number 0x1950a86a20f9469cfc6c, with which files before PyTorch 1.6 begin.
const LEGACY: [u8; 15] = [
    0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, b'.',
];

/// Find every tensor of `file`, which has `length` bytes, or say what is wrong with it.
pub(super) fn find_tensors(file: File, length: u64) -> Result<Vec<(String, Placed)>, String> {
    let mut file = BufReader::new(file);
    let mut start = [0; 15];
    let mut read = 0;
    while read < start.len() {
        match file.read(&mut start[read..]).map_err(|e| e.to_string())? {
            0 => break,
            n => read += n,
        }
    }
    if start == LEGACY {
        from_legacy(file, length)
    } else if start.starts_with(b"PK") {
        from_zip(file.into_inner(), length)
    } else {
        Err("it begins like no file that torch.save writes".into())
    }
}

fn from_zip(file: File, length: u64) -> Result<Vec<(String, Placed)>, String> {
    let bad = |e: rawzip::Error| format!("its archive cannot be read ({e})");
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive = ZipArchive::from_file(file, &mut buffer).map_err(bad)?;
    let mut parts = HashMap::new();
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(bad)? {
        let name = String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned();
        // All entries lie in one folder, named as the file once was.
        let Some((_, name)) = name.split_once('/') else {
            continue;
        };
        if parts.len() >= MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} entries"));
        }
        let stored = entry.compression_method() == rawzip::CompressionMethod::STORE;
        parts.insert(name.to_owned(), (entry.wayfinder(), stored));
    }
    // Where an entry's bytes begin and how many they are.
    let place = |name: &str| -> Result<Option<(u64, u64)>, String> {
        let Some(&(wayfinder, stored)) = parts.get(name) else {
            return Ok(None);
        };
        let entry = archive.get_entry(wayfinder).map_err(bad)?;
        let (start, end) = entry.compressed_data_range();
        if !stored {
            return Err(format!(
                "its entry {name} is compressed, which torch.save does not do"
            ));
        }
        if end > length || end < start {
            return Err(format!("its entry {name} ends beyond the end of the file"));
        }
        Ok(Some((start, end - start)))
    };
    let contents = |name: &str, limit: u64| -> Result<Option<Vec<u8>>, String> {
        let Some((_, bytes)) = place(name)? else {
            return Ok(None);
        };
        if bytes > limit {
            return Err(format!("its entry {name} has {bytes} bytes"));
        }
        let entry = archive.get_entry(parts[name].0).map_err(bad)?;
        let mut contents = Vec::new();
        entry
            .verifying_reader(entry.reader())
            .read_to_end(&mut contents)
            .map_err(|e| format!("its entry {name} is damaged ({e})"))?;
        Ok(Some(contents))
    };
    if contents("byteorder", 64)?.is_some_and(|order| order != b"little") {
        return Err("it was written on a big-endian machine".into());
    }
    let pickle = contents("data.pkl", MAX_PICKLE)?
        .ok_or("it is an archive without data.pkl, not one that torch.save wrote")?;
    let tensors = tensors_of(read_pickle(&mut pickle.as_slice())?)?;
    let mut placed = Vec::new();
    for (name, tensor) in tensors {
        let Storage { key, dtype, count } = &*tensor.storage;
        let (start, bytes) = place(&format!("data/{key}"))?
            .ok_or_else(|| format!("the numbers of {name} are missing from it"))?;
        if count.checked_mul(width(*dtype)).is_none_or(|n| n > bytes) {
            return Err(format!("the numbers of {name} are cut short"));
        }
        placed.push((name, placed_at(&tensor, start)));
    }
    Ok(placed)
}

/// Pickles of a magic number (already read), a version, the machine, the state dict and the keys of
/// the storages; then each storage as its number of values and their bytes.
fn from_legacy(mut file: BufReader<File>, length: u64) -> Result<Vec<(String, Placed)>, String> {
    let io = |e: std::io::Error| e.to_string();
    let mut next = || {
        let mut limited = (&mut file).take(MAX_PICKLE);
        read_pickle(&mut limited)
    };
    match next()? {
        Value::Int(1001) => {}
        _ => return Err("it is of an unknown version".into()),
    }
    if let Value::Dict(machine) = next()? {
        let machine = machine.borrow();
        let big = |(name, member): &(Rc<str>, Member)| {
            &**name == "little_endian" && matches!(member, Member::False)
        };
        if machine.iter().any(big) {
            return Err("it was written on a big-endian machine".into());
        }
    }
    let tensors = tensors_of(next()?)?;
    let Value::Texts(keys) = next()? else {
        return Err("it lists no storages".into());
    };
    let storages: HashMap<&str, &Storage> = tensors
        .iter()
        .map(|(_, t)| (t.storage.key.as_str(), &*t.storage))
        .collect();
    let mut starts = HashMap::new();
    let mut position = file.stream_position().map_err(io)?;
    for key in keys.borrow().iter() {
        let storage = storages
            .get(&**key)
            .ok_or("it holds numbers that belong to no tensor")?;
        let mut count = [0; 8];
        file.seek(SeekFrom::Start(position)).map_err(io)?;
        file.read_exact(&mut count)
            .map_err(|_| "its numbers are cut short")?;
        if u64::from_le_bytes(count) != storage.count {
            return Err(format!(
                "storage {key} has {} values where {} were promised",
                u64::from_le_bytes(count),
                storage.count
            ));
        }
        let end = storage
            .count
            .checked_mul(width(storage.dtype))
            .and_then(|bytes| bytes.checked_add(position + 8))
            .filter(|&end| end <= length)
            .ok_or("its numbers are cut short")?;
        starts.insert(key.to_string(), position + 8);
        position = end;
    }
    tensors
        .iter()
        .map(|(name, tensor)| {
            let start = starts
                .get(&tensor.storage.key)
                .ok_or_else(|| format!("the numbers of {name} are missing from it"))?;
            Ok((name.clone(), placed_at(tensor, *start)))
        })
        .collect()
}

/// The tensors of a state dict by name, in its order.
fn tensors_of(root: Value) -> Result<Vec<(String, Rc<PickledTensor>)>, String> {
    const ADVICE: &str = "it does not hold tensors by name; save model.state_dict()";
    let Value::Dict(dict) = root else {
        return Err(ADVICE.into());
    };
    let tensors: Vec<_> = dict
        .borrow()
        .iter()
        .filter_map(|(name, member)| match member {
            Member::Tensor(tensor) => Some((name.to_string(), tensor.clone())),
            _ => None,
        })
        .collect();
    if tensors.is_empty() {
        return Err(ADVICE.into());
    }
    Ok(tensors)
}

/// Bytes of one value.
fn width(dtype: Dtype) -> u64 {
    dtype.bitsize() as u64 / 8
}

fn placed_at(tensor: &PickledTensor, start: u64) -> Placed {
    let dtype = tensor.storage.dtype;
    Placed {
        dtype,
        shape: tensor.shape.clone(),
        // The machine has checked that the view lies inside its storage.
        start: start + tensor.offset * width(dtype),
        layout: layout(&tensor.shape, &tensor.strides),
    }
}

fn layout(shape: &[usize], strides: &[u64]) -> Layout {
    let mut expected = 1;
    let in_rows = shape.iter().zip(strides).rev().all(|(&n, &step)| {
        let fits = n <= 1 || step == expected;
        expected *= n as u64;
        fits
    });
    match (shape, strides) {
        _ if in_rows => Layout::Rows,
        (&[rows, _], &[1, step]) if step == rows as u64 => Layout::Columns,
        _ => Layout::Scattered,
    }
}
