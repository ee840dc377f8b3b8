//! Every layout in which a GPT-2 may lie on disk gives the numbers of the reference layout, which
//! `model_parity` compares with transformers.

use std::{collections::BTreeMap, fs, ops::ControlFlow};

use logitscope::{
    model::{ComputeDevice, DeviceChoice, Gpt2, LoadRequest, ModelSource, WeightOptions},
    worker::Engine,
};
use safetensors::Dtype;
use serde_json::{Value, json};

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
    let model = load(folder.path()).unwrap();
    assert_eq!(logits(&model), reference());
    assert_eq!(
        model.notes,
        ["the matrices lie as [out, in] and were transposed"]
    );

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

/// The fixture with `rows` rows in its table, of which those past the 400th are `fill`.
fn with_rows(rows: usize, fill: f32) -> Tensors {
    let mut all = tensors();
    let mut table = values(&all["wte.weight"]);
    table.resize(rows * 48, fill);
    all.insert("wte.weight".into(), f32s(&[rows, 48], table));
    all
}

#[test]
fn rows_past_the_vocabulary_are_padding_and_not_used() {
    // Such a row's logit is far from those of the others: it would win or be lost among them.
    for fill in [0.0, 100.0, f32::NAN] {
        let folder = folder_with(&with_rows(448, fill));
        let model = load(folder.path()).unwrap();
        assert_eq!(model.config.vocab_size, 400);
        assert_eq!(
            model.notes,
            ["config.json says 400 tokens, the token table has 448 rows: 400 are used"]
        );
        assert_eq!(logits(&model), reference());
        let outside = model.forward(&[400], &mut model.new_cache(), &Default::default());
        assert!(outside.is_err());
    }

    // A head of its own is padded likewise, with its bias.
    let mut all = with_rows(448, 100.0);
    all.insert("lm_head.weight".into(), all["wte.weight"].clone());
    all.insert("lm_head.bias".into(), f32s(&[448], vec![0.0; 448]));
    let folder = folder_with(&all);
    assert_eq!(logits(&load(folder.path()).unwrap()), reference());

    // Where config.json counts them in, they are tokens like all others.
    let folder = folder_with(&with_rows(448, 0.0));
    change_config(folder.path(), |config| {
        config.insert("vocab_size".into(), json!(448));
    });
    let model = load(folder.path()).unwrap();
    assert_eq!((model.config.vocab_size, model.notes.len()), (448, 0));
    assert_eq!(
        engine(&folder).1.notes,
        [
            "the tokenizer names 400 tokens, the token table has 448 rows: the other rows stand for no text"
        ]
    );
    assert_eq!(logits(&model)[..400], reference());
}

#[test]
fn rows_of_tokens_that_the_tokenizer_names_are_used() {
    let folder = folder_with(&with_rows(448, 0.0));
    fs::write(
        folder.path().join("added_tokens.json"),
        r#"{"<|pad|>": 400, "<|user|>": 401}"#,
    )
    .unwrap();
    let (engine, info) = engine(&folder);
    assert_eq!((engine.gpt2.config.vocab_size, info.vocab_size), (402, 402));
    assert_eq!(info.tokenizer.encode("<|user|><|pad|>"), [401, 400]);
    assert_eq!(info.tokenizer.named_tokens(), 402);
    assert_eq!(
        info.notes,
        ["config.json says 400 tokens, the token table has 448 rows: 402 are used"]
    );
}

fn engine(folder: &tempfile::TempDir) -> (Engine, logitscope::worker::ModelInfo) {
    let request = LoadRequest::new(ModelSource::Folder(folder.path().into()), DeviceChoice::Cpu);
    Engine::load(&request, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

#[test]
fn unknown_tensors_are_left_out_where_that_is_allowed_and_named() {
    let mut all = tensors();
    let zero = || f32s(&[1], [0.0]);
    let load = |all: &Tensors| {
        let folder = folder_with(all);
        let source = ModelSource::Folder(folder.path().into());
        let options = WeightOptions {
            allow_unknown_tensors: true,
            ..Default::default()
        };
        let go_on = &mut |_, _| ControlFlow::Continue(());
        Gpt2::load_with(&source, &ComputeDevice::flex(), options, go_on).unwrap()
    };
    assert!(load(&all).notes.is_empty(), "there was none");
    all.insert("h.0.attn.rotary".into(), zero());
    let model = load(&all);
    assert_eq!(
        model.notes,
        ["the unknown tensor h.0.attn.rotary was not read"]
    );
    assert_eq!(logits(&model), reference());
    for name in ["score.weight", "v_head.bias", "v_head.weight"] {
        all.insert(name.into(), zero());
    }
    assert_eq!(
        load(&all).notes,
        ["4 unknown tensors were not read: h.0.attn.rotary, score.weight, v_head.bias and 1 more"]
    );
    // What is missing is still an error.
    all.remove("ln_f.bias");
    let error = Gpt2::load_with(
        &ModelSource::Folder(folder_with(&all).path().into()),
        &ComputeDevice::flex(),
        WeightOptions {
            allow_unknown_tensors: true,
            ..Default::default()
        },
        &mut |_, _| ControlFlow::Continue(()),
    )
    .unwrap_err();
    assert!(error.to_string().contains("lacks the tensor ln_f.bias"));
}

#[test]
fn tokens_without_a_row_are_not_tokens_of_the_model() {
    let folder = copy("vocab-and-merges");
    fs::write(folder.path().join("added_tokens.json"), r#"{"[PAD]": 400}"#).unwrap();
    let (_, info) = engine(&folder);
    let tokenizer = &info.tokenizer;
    assert_eq!(
        (tokenizer.named_tokens(), tokenizer.vocab_size()),
        (401, 400)
    );
    assert_eq!(
        info.notes,
        [
            "the tokenizer names 401 tokens, the token table has 400 rows: tokens without a row are not used"
        ]
    );
    assert_eq!(tokenizer.id_of("[PAD]"), None);
    let ids = tokenizer.encode("a[PAD]");
    assert!(ids.iter().all(|&id| id < 400), "{ids:?}");
    assert_eq!(tokenizer.decode(&ids), "a[PAD]");

    // Fewer rows than the base vocabulary: what is cut off is spelled in smaller tokens.
    let small = tokenizer.for_table(300).unwrap();
    for text in ["The cat sat on the mat", "東京 🙂", "the the the"] {
        let ids = small.encode(text);
        assert!(ids.iter().all(|&id| id < 300), "{ids:?}");
        assert_eq!(small.decode(&ids), text);
        assert_ne!(ids, tokenizer.encode(text));
    }
    assert!(small.find("the", 50).iter().all(|&id| id < 300));
}

#[test]
fn end_of_text_comes_from_the_config_else_from_the_tokenizer() {
    let folder = copy("vocab-and-merges");
    assert_eq!(engine(&folder).1.end_of_text, Some(0));
    change_config(folder.path(), |config| {
        config.insert("eos_token_id".into(), json!(7));
    });
    assert_eq!(engine(&folder).1.end_of_text, Some(7));
    change_config(folder.path(), |config| {
        config.remove("eos_token_id");
    });
    assert_eq!(engine(&folder).1.end_of_text, Some(0));
}

#[test]
fn vocab_and_merges_give_the_ids_of_tokenizer_json() {
    let expected = fs::read_to_string(fixture("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let folder = copy("vocab-and-merges");
    let merges = folder.path().join("merges.txt");
    let text = fs::read_to_string(&merges).unwrap();
    assert!(text.starts_with("#version"));
    let without_version = text.split_once('\n').unwrap().1.to_owned();
    for variant in [text.clone(), without_version, text.replace('\n', "\r\n")] {
        fs::write(&merges, variant).unwrap();
        let tokenizer = engine(&folder).1.tokenizer;
        assert_eq!(
            (tokenizer.vocab_size(), tokenizer.end_of_text()),
            (400, Some(0))
        );
        assert!(tokenizer.is_special(0) && tokenizer.is_byte_level());
        for prompt in expected["prompts"].as_array().unwrap() {
            let ids: Vec<u32> = serde_json::from_value(prompt["ids"].clone()).unwrap();
            let text = prompt["text"].as_str().unwrap();
            assert_eq!(tokenizer.encode(text), ids, "{text}");
            assert_eq!(tokenizer.decode(&ids), text);
        }
    }

    let special = r##"{"eos_token": {"content": "!"}, "pad_token": "?", "bos_token": "nowhere",
        "additional_special_tokens": ["#"]}"##;
    fs::write(folder.path().join("special_tokens_map.json"), special).unwrap();
    let tokenizer = engine(&folder).1.tokenizer;
    let marked = |id| tokenizer.is_special(id);
    assert_eq!([1, 2, 3, 31].map(marked), [true, false, true, true]);
    assert_eq!(tokenizer.vocab_size(), 400);
}

#[test]
fn a_file_or_a_cache_folder_stands_for_its_model() {
    let cache = tempfile::tempdir().unwrap();
    let repository = cache.path().join("models--some-one--tiny");
    let snapshot = repository.join("snapshots").join("0123abc");
    fs::create_dir_all(&snapshot).unwrap();
    for entry in fs::read_dir(fixture("vocab-and-merges")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), snapshot.join(entry.file_name())).unwrap();
    }
    let picks = [
        snapshot.clone(),
        snapshot.join("model.safetensors"),
        snapshot.join("config.json"),
        repository.clone(),
    ];
    for pick in &picks {
        assert_eq!(
            logits(&load(pick).unwrap()),
            reference(),
            "{}",
            pick.display()
        );
        let source = ModelSource::Folder(pick.clone());
        assert_eq!(source.name(), "some-one/tiny", "{}", pick.display());
        assert_eq!(Engine::tokenizer_of(&source).unwrap().vocab_size(), 400);
    }
    // Of several snapshots the one that refs/main names is meant.
    fs::create_dir_all(repository.join("snapshots").join("ffff")).unwrap();
    assert!(load(&repository).is_err());
    fs::create_dir_all(repository.join("refs")).unwrap();
    fs::write(repository.join("refs").join("main"), "0123abc\n").unwrap();
    assert_eq!(logits(&load(&repository).unwrap()), reference());
}

#[test]
fn without_a_config_published_widths_are_recognised() {
    // One layer of distilgpt2's width: 768 wide means 12 heads in every published GPT-2.
    let (d, v) = (768, 40);
    let mut all = Tensors::new();
    let mut add = |name: &str, shape: &[usize]| {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|i| ((i * 7919 + name.len()) % 1000) as f32 * 1e-4 - 0.05);
        all.insert(name.into(), f32s(shape, values));
    };
    add("wte.weight", &[v, d]);
    add("wpe.weight", &[16, d]);
    add("ln_f.weight", &[d]);
    add("ln_f.bias", &[d]);
    for (part, shape) in [
        ("ln_1", vec![d]),
        ("attn.c_attn", vec![d, 3 * d]),
        ("attn.c_proj", vec![d, d]),
        ("ln_2", vec![d]),
        ("mlp.c_fc", vec![d, 96]),
        ("mlp.c_proj", vec![96, d]),
    ] {
        add(&format!("h.0.{part}.weight"), &shape);
        add(&format!("h.0.{part}.bias"), &shape[shape.len() - 1..]);
    }
    let folder = tempfile::tempdir().unwrap();
    write_safetensors(&folder.path().join("model.safetensors"), &all);
    let model = load(folder.path()).unwrap();
    let config = &model.config;
    assert_eq!(
        [
            config.n_layer,
            config.n_head,
            config.n_embd,
            config.n_inner,
            config.n_ctx
        ],
        [1, 12, 768, 96, 16]
    );
    assert_eq!((config.vocab_size, config.tie_word_embeddings), (40, true));
    assert!(model.notes[0].starts_with("config.json is missing: sizes taken"));
}

#[test]
fn tying_may_be_said_and_done_both_ways() {
    // A head of its own is used although config.json says that it is tied, and the other way
    // round its absence is an error; see model_bad_input.
    let mut all = tensors();
    let doubled: Vec<f32> = values(&all["wte.weight"]).iter().map(|x| 2.0 * x).collect();
    all.insert("lm_head.weight".into(), f32s(&[400, 48], doubled));
    let expected: Vec<f32> = reference().iter().map(|z| 2.0 * z).collect();
    for tied in [true, false] {
        let folder = folder_with(&all);
        change_config(folder.path(), |config| {
            config.insert("tie_word_embeddings".into(), json!(tied));
        });
        assert_eq!(logits(&load(folder.path()).unwrap()), expected);
    }
}
