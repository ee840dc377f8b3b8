//! Every layout in which a GPT-2 may lie on disk gives the numbers of the reference layout, which
//! `model_parity` compares with transformers.

use std::{collections::BTreeMap, fs};

use safetensors::Dtype;
use serde_json::json;

#[path = "support/checkpoint.rs"]
mod checkpoint;
use checkpoint::*;

/// Write `tensors` in place of the weights of a fresh copy.
fn folder_with(tensors: &Tensors) -> tempfile::TempDir {
    let folder = copy("vocab-and-merges");
    write_safetensors(&folder.path().join("model.safetensors"), tensors);
    folder
}

/// A copy without weights.
fn folder_without_weights() -> tempfile::TempDir {
    let folder = copy("vocab-and-merges");
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    folder
}

fn reference() -> Vec<f32> {
    logits(&load(&fixture("vocab-and-merges")).unwrap())
}

#[test]
fn linear_weights_are_turned_around_the_square_one_too() {
    let mut linear = tensors();
    let names = matrices(&linear);
    assert_eq!(names.len(), 12);
    for name in &names {
        let turned = transposed(&linear[name]);
        linear.insert(name.clone(), turned);
    }
    let folder = folder_with(&linear);
    assert_eq!(logits(&load(folder.path()).unwrap()), reference());

    // The square one alone the other way round is a different model: nothing can tell.
    let name = "h.1.attn.c_proj.weight";
    linear.insert(name.into(), transposed(&linear[name]));
    let folder = folder_with(&linear);
    assert_ne!(logits(&load(folder.path()).unwrap()), reference());

    let mut mixed = tensors();
    let name = "h.2.mlp.c_fc.weight";
    mixed.insert(name.into(), transposed(&mixed[name]));
    let folder = folder_with(&mixed);
    assert_eq!(
        message(folder.path()),
        "model.safetensors: the tensor h.2.mlp.c_fc.weight is transposed against \
         h.0.attn.c_attn.weight; a model has all its matrices as [in, out] or all as [out, in]: \
         save it again with one tool"
    );
}

#[test]
fn a_square_mlp_follows_the_attention() {
    // With n_inner = n_embd only c_attn can tell.
    let mut square = tensors();
    for name in matrices(&square) {
        if name.contains(".mlp.") {
            let part: Vec<f32> = values(&square[&name])[..48 * 48].to_vec();
            square.insert(name, f32s(&[48, 48], part));
        }
    }
    for layer in 0..3 {
        let name = format!("h.{layer}.mlp.c_fc.bias");
        let part: Vec<f32> = values(&square[&name])[..48].to_vec();
        square.insert(name, f32s(&[48], part));
    }
    let mut linear = square.clone();
    for name in matrices(&square) {
        linear.insert(name.clone(), transposed(&square[&name]));
    }
    let [conv1d, linear] = [square, linear].map(|tensors| {
        let folder = folder_with(&tensors);
        change_config(folder.path(), |config| {
            config.insert("n_inner".into(), json!(48));
        });
        logits(&load(folder.path()).unwrap())
    });
    assert_eq!(conv1d, linear);
}

#[test]
fn pytorch_files_of_all_ages_give_the_same_numbers() {
    let all = tensors();
    let bin = |folder: &tempfile::TempDir| folder.path().join("pytorch_model.bin");

    let folder = folder_without_weights();
    let pickle = state_dict_pickle(&all, &BTreeMap::new(), false);
    write_zip_bin(&bin(&folder), &all, &pickle);
    assert_eq!(logits(&load(folder.path()).unwrap()), reference());

    let folder = folder_without_weights();
    fs::write(bin(&folder), legacy_bin(&all)).unwrap();
    assert_eq!(logits(&load(folder.path()).unwrap()), reference());

    // Transposed views keep their columns together.
    let mut stored = all.clone();
    let mut strides = BTreeMap::new();
    for name in [
        "h.0.attn.c_attn.weight",
        "h.1.attn.c_proj.weight",
        "wte.weight",
    ] {
        let [rows, columns] = all[name].1[..] else {
            panic!()
        };
        let turned = transposed(&all[name]);
        stored.insert(name.into(), (Dtype::F32, vec![rows, columns], turned.2));
        strides.insert(name, vec![1, rows]);
    }
    let folder = folder_without_weights();
    let pickle = state_dict_pickle(&stored, &strides, false);
    write_zip_bin(&bin(&folder), &stored, &pickle);
    assert_eq!(logits(&load(folder.path()).unwrap()), reference());

    strides.insert("wte.weight", vec![2, 1]);
    let pickle = state_dict_pickle(&stored, &strides, false);
    write_zip_bin(&bin(&folder), &stored, &pickle);
    assert_eq!(
        message(folder.path()),
        "pytorch_model.bin: the tensor wte.weight is a view whose values are neither row after row \
         nor column after column; make it contiguous and save the model again"
    );
}

#[test]
fn shards_of_pytorch_files_are_put_together() {
    let folder = folder_without_weights();
    let mut shards = [Tensors::new(), Tensors::new()];
    let mut map = serde_json::Map::new();
    let names = [
        "pytorch_model-00001-of-00002.bin",
        "pytorch_model-00002-of-00002.bin",
    ];
    for (i, (name, tensor)) in tensors().into_iter().enumerate() {
        let name = format!("transformer.{name}");
        map.insert(name.clone(), json!(names[i % 2]));
        shards[i % 2].insert(name, tensor);
    }
    for (name, shard) in names.iter().zip(&shards) {
        let pickle = state_dict_pickle(shard, &BTreeMap::new(), false);
        write_zip_bin(&folder.path().join(name), shard, &pickle);
    }
    assert_eq!(
        message(folder.path()),
        "FOLDER has the shard pytorch_model-00001-of-00002.bin but no \
         pytorch_model.bin.index.json; download that file too"
    );
    let index = json!({ "metadata": {}, "weight_map": map }).to_string();
    fs::write(folder.path().join("pytorch_model.bin.index.json"), index).unwrap();
    // A file that the index does not name is not opened.
    fs::write(
        folder.path().join("pytorch_model-00003-of-00003.bin"),
        "stray",
    )
    .unwrap();
    assert_eq!(logits(&load(folder.path()).unwrap()), reference());

    fs::remove_file(folder.path().join(names[1])).unwrap();
    assert_eq!(
        message(folder.path()),
        "pytorch_model.bin.index.json names the shard pytorch_model-00002-of-00002.bin, which is \
         missing from the folder; download it"
    );
}
