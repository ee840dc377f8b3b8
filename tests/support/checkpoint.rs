//! Checkpoints made from the fixture's weights, in every layout that tools write.
#![allow(dead_code)]

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use logitscope::model::{ComputeDevice, Gpt2, Logits, ModelError, ModelSource, Record};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::Value;

pub fn fixture(layout: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/gpt2-tiny")
        .join(layout)
}

/// A copy of a fixture folder that can be changed.
pub fn copy(layout: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(layout)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

pub fn load(folder: &Path) -> Result<Gpt2, ModelError> {
    Gpt2::load(
        &ModelSource::Folder(folder.into()),
        &ComputeDevice::flex(),
        &mut |_, _| ControlFlow::Continue(()),
    )
}

/// The error message, with the folder's own path left out.
#[track_caller]
pub fn message(folder: &Path) -> String {
    match load(folder) {
        Ok(_) => panic!("loaded, but should have been refused"),
        Err(error) => error
            .to_string()
            .replace(&folder.display().to_string(), "FOLDER"),
    }
}

/// Logits of the last of a few tokens.
pub fn logits(model: &Gpt2) -> Vec<f32> {
    let record = Record {
        logits: Logits::Last,
        ..Record::default()
    };
    model
        .forward(&[5, 17, 300, 2], &mut model.new_cache(), &record)
        .unwrap()
        .logits
}

pub fn change_config(folder: &Path, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let path = folder.join("config.json");
    let mut json: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(json.as_object_mut().unwrap());
    fs::write(path, json.to_string()).unwrap();
}

/// Name → type, shape, values in rows.
pub type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// The fixture's weights, without the `transformer.` prefix.
pub fn tensors() -> Tensors {
    let bytes = fs::read(fixture("vocab-and-merges").join("model.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(n, t)| {
            let data = t.data().to_vec();
            (n.to_owned(), (t.dtype(), t.shape().to_vec(), data))
        })
        .collect()
}

pub fn values((_, _, bytes): &(Dtype, Vec<usize>, Vec<u8>)) -> Vec<f32> {
    let (values, _) = bytes.as_chunks::<4>();
    values.iter().map(|&b| f32::from_le_bytes(b)).collect()
}

pub fn f32s(
    shape: &[usize],
    values: impl IntoIterator<Item = f32>,
) -> (Dtype, Vec<usize>, Vec<u8>) {
    let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
    assert_eq!(bytes.len(), 4 * shape.iter().product::<usize>());
    (Dtype::F32, shape.to_vec(), bytes)
}

/// The transposed matrix.
pub fn transposed(tensor: &(Dtype, Vec<usize>, Vec<u8>)) -> (Dtype, Vec<usize>, Vec<u8>) {
    let [rows, columns] = tensor.1[..] else {
        panic!("not a matrix")
    };
    let all = values(tensor);
    let by_column = (0..rows * columns).map(|i| all[i % rows * columns + i / rows]);
    f32s(&[columns, rows], by_column)
}

/// The names of the blocks' matrices.
pub fn matrices(tensors: &Tensors) -> Vec<String> {
    let is_matrix = |name: &&String| name.starts_with("h.") && tensors[*name].1.len() == 2;
    tensors.keys().filter(is_matrix).cloned().collect()
}

pub fn write_safetensors(path: &Path, tensors: &Tensors) {
    let views: Vec<_> = tensors
        .iter()
        .map(|(n, (dtype, shape, data))| {
            let view = TensorView::new(*dtype, shape.clone(), data).unwrap();
            (n.as_str(), view)
        })
        .collect();
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// What `torch.save` pickles for a state dict. `strides` are those of rows unless given by name.
pub fn state_dict_pickle(
    tensors: &Tensors,
    strides: &BTreeMap<&str, Vec<usize>>,
    legacy: bool,
) -> Vec<u8> {
    let parts = tensors.iter().map(|(name, (dtype, shape, data))| {
        let class = match dtype {
            Dtype::F32 => "FloatStorage",
            Dtype::F16 => "HalfStorage",
            Dtype::F64 => "DoubleStorage",
            other => panic!("no storage for {other:?}"),
        };
        let by_rows = || {
            (0..shape.len())
                .map(|axis| shape[axis + 1..].iter().product())
                .collect()
        };
        Part {
            name,
            class,
            count: data.len() * 8 / dtype.bitsize(),
            shape,
            strides: strides.get(name.as_str()).cloned().unwrap_or_else(by_rows),
        }
    });
    pickle(parts, legacy)
}

struct Part<'a> {
    name: &'a str,
    class: &'a str,
    count: usize,
    shape: &'a [usize],
    strides: Vec<usize>,
}

fn pickle<'a>(parts: impl Iterator<Item = Part<'a>>, legacy: bool) -> Vec<u8> {
    let mut out = b"\x80\x02ccollections\nOrderedDict\n)R(".to_vec();
    for (key, part) in parts.enumerate() {
        text(&mut out, part.name);
        out.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        text(&mut out, "storage");
        out.extend(format!("ctorch\n{}\n", part.class).bytes());
        text(&mut out, &key.to_string());
        text(&mut out, "cpu");
        number(&mut out, part.count);
        if legacy {
            out.push(b'N');
        }
        out.extend(b"tQ");
        number(&mut out, 0);
        for sizes in [part.shape, &part.strides] {
            out.push(b'(');
            sizes.iter().for_each(|&n| number(&mut out, n));
            out.push(b't');
        }
        out.extend(b"\x89ccollections\nOrderedDict\n)RtR");
    }
    out.extend(b"u.");
    out
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b'X');
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.bytes());
}

fn number(out: &mut Vec<u8>, number: usize) {
    out.push(b'J');
    out.extend((number as i32).to_le_bytes());
}

/// As PyTorch 1.6 and later write it.
pub fn write_zip_bin(path: &Path, tensors: &Tensors, pickle: &[u8]) {
    let mut zip = rawzip::ZipArchiveWriter::new(Vec::new());
    let mut add = |name: &str, bytes: &[u8]| {
        let (mut entry, config) = zip
            .new_file(name)
            .compression_method(rawzip::CompressionMethod::STORE)
            .start()
            .unwrap();
        let mut writer = config.wrap(&mut entry);
        writer.write_all(bytes).unwrap();
        let (_, descriptor) = writer.finish().unwrap();
        entry.finish(descriptor).unwrap();
    };
    add("archive/data.pkl", pickle);
    add("archive/byteorder", b"little");
    for (key, (_, _, data)) in tensors.values().enumerate() {
        add(&format!("archive/data/{key}"), data);
    }
    fs::write(path, zip.finish().unwrap()).unwrap();
}

/// As PyTorch before 1.6 wrote it.
pub fn legacy_bin(tensors: &Tensors) -> Vec<u8> {
    let state_dict = state_dict_pickle(tensors, &BTreeMap::new(), true);
    let mut out = legacy_pickles(&state_dict, tensors.len());
    for (dtype, _, data) in tensors.values() {
        out.extend(((data.len() * 8 / dtype.bitsize()) as u64).to_le_bytes());
        out.extend(data);
    }
    out
}

/// What stands before the numbers of f32 tensors of these names and shapes.
pub fn legacy_head(tensors: &[(String, Vec<usize>)]) -> Vec<u8> {
    let parts = tensors.iter().map(|(name, shape)| Part {
        name,
        class: "FloatStorage",
        count: shape.iter().product(),
        shape,
        strides: (0..shape.len())
            .map(|axis| shape[axis + 1..].iter().product())
            .collect(),
    });
    legacy_pickles(&pickle(parts, true), tensors.len())
}

fn legacy_pickles(state_dict: &[u8], storages: usize) -> Vec<u8> {
    let mut out = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.".to_vec();
    out.extend(b"\x80\x02M\xe9\x03.");
    out.extend(b"\x80\x02}(");
    text(&mut out, "little_endian");
    out.extend(b"\x88u.");
    out.extend(state_dict);
    out.extend(b"\x80\x02](");
    for key in 0..storages {
        text(&mut out, &key.to_string());
    }
    out.extend(b"e.");
    out
}
