//! What is wrong with a model folder is said in one sentence that names the culprit.

use std::{fs, ops::ControlFlow, path::Path};

use logitscope::model::{
    ComputeDevice, Gpt2, Gpt2Config, ModelSource, Precision, WeightOptions, folder_tokenizer_files,
};
use proptest::prelude::*;
use safetensors::Dtype;
use serde_json::{Value, json};

#[path = "support/checkpoint.rs"]
mod checkpoint;
use checkpoint::*;

fn config_with(changes: &[(&str, Value)]) -> String {
    let text = fs::read_to_string(fixture("safetensors").join("config.json")).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    for (key, value) in changes {
        json[*key] = value.clone();
    }
    json.to_string()
}

#[test]
fn hostile_configs_are_refused_by_name() {
    let table: Vec<(Vec<(&str, Value)>, &str)> = vec![
        (
            vec![("n_embd", json!(0))],
            "n_embd is 0; it must be between 1 and 65536",
        ),
        (
            vec![("n_layer", json!(0))],
            "n_layer is 0; it must be between 1 and 1024",
        ),
        (
            vec![("n_head", json!(0))],
            "n_head is 0; it must be between 1 and 65536",
        ),
        (
            vec![("vocab_size", json!(0))],
            "vocab_size is 0; it must be between 1 and 16777216",
        ),
        (
            vec![("n_positions", json!(0))],
            "n_positions is 0; it must be between 1 and 1048576",
        ),
        (
            vec![("n_inner", json!(0))],
            "n_inner is 0; it must be between 1 and 1048576",
        ),
        (
            vec![("n_layer", json!(u64::MAX))],
            "n_layer is 18446744073709551615; it must be between 1 and 1024",
        ),
        (
            vec![("vocab_size", json!(4_294_967_296u64))],
            "vocab_size is 4294967296; it must be between 1 and 16777216",
        ),
        (
            vec![("n_embd", json!(-48))],
            "n_embd is -48; it must be a whole number between 1 and 65536",
        ),
        (
            vec![("n_embd", json!(48.5))],
            "n_embd is 48.5; it must be a whole number between 1 and 65536",
        ),
        (
            vec![("n_embd", json!("48"))],
            "n_embd is \"48\"; it must be a whole number between 1 and 65536",
        ),
        (vec![("n_embd", json!(null))], "n_embd is missing"),
        (
            vec![("n_head", json!(7))],
            "n_embd 48 is not a multiple of n_head 7",
        ),
        (
            vec![
                ("n_embd", json!(65_536)),
                ("n_head", json!(64)),
                ("n_layer", json!(1024)),
            ],
            "the sizes make 52777461088256 weights; at most 17179869184 can be loaded",
        ),
        (
            vec![("model_type", json!("llama"))],
            "model_type is \"llama\"; only \"gpt2\" can be run",
        ),
        (
            vec![("model_type", json!(2))],
            "model_type is 2; it must be a text",
        ),
        (
            vec![("activation_function", json!("quick_gelu"))],
            "activation_function is \"quick_gelu\"; supported are gelu_new, gelu, relu, silu and tanh",
        ),
        (
            vec![("add_cross_attention", json!(true))],
            "add_cross_attention is set, which is not supported",
        ),
        (
            vec![("quantization_config", json!({"bits": 4}))],
            "quantization_config is set, which is not supported",
        ),
        (
            vec![("layer_norm_epsilon", json!(0))],
            "layer_norm_epsilon is 0; it must lie between 0 and 1",
        ),
        (
            vec![("layer_norm_epsilon", json!("small"))],
            "layer_norm_epsilon is \"small\"; it must be a number",
        ),
        (
            vec![("scale_attn_weights", json!(1))],
            "scale_attn_weights is 1; it must be true or false",
        ),
        (
            vec![("eos_token_id", json!(400))],
            "eos_token_id is 400, outside the vocabulary of 400 tokens",
        ),
        (
            vec![("eos_token_id", json!("x"))],
            "eos_token_id is \"x\"; it must be a token id",
        ),
    ];
    for (changes, expected) in table {
        let error = Gpt2Config::from_json(&config_with(&changes)).unwrap_err();
        assert_eq!(error.to_string(), format!("config.json: {expected}"));
    }
    for (text, start) in [
        ("", "config.json: not valid JSON (EOF"),
        ("{\"n_embd\": ", "config.json: not valid JSON (EOF"),
        ("[]", "config.json: not a JSON object"),
        (
            "{\"n_embd\": 1e999}",
            "config.json: not valid JSON (number out of range",
        ),
    ] {
        let error = Gpt2Config::from_json(text).unwrap_err().to_string();
        assert!(error.starts_with(start), "{error}");
    }
}

#[test]
fn config_switches_are_read() {
    let config = Gpt2Config::from_json(&config_with(&[
        ("n_inner", json!(100)),
        ("activation_function", json!("relu")),
        ("scale_attn_weights", json!(false)),
        ("scale_attn_by_inverse_layer_idx", json!(true)),
        ("tie_word_embeddings", json!(false)),
        ("bos_token_id", json!(null)),
        ("eos_token_id", json!([7, 8])),
    ]))
    .unwrap();
    assert_eq!(config.n_inner, 100);
    assert_eq!(config.activation_function.to_string(), "relu");
    assert!(!config.scale_attn_weights && config.scale_attn_by_inverse_layer_idx);
    assert!(!config.tie_word_embeddings);
    assert_eq!((config.bos_token_id, config.eos_token_id), (None, Some(7)));
}

#[test]
fn the_published_sizes_have_their_published_numbers_of_weights() {
    for (name, parameters) in [
        ("gpt2", 124_439_808),
        ("distilgpt2", 81_912_576),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ] {
        let config = Gpt2Config::shape(name).unwrap();
        config.validate().unwrap();
        assert_eq!(config.parameters(), parameters, "{name}");
    }
    assert!(Gpt2Config::shape("gpt3").is_none());
}

#[test]
fn folders_without_a_model_say_what_is_missing() {
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(
        message(empty.path()),
        "FOLDER holds no GPT-2: config.json and the weights (model.safetensors or \
         pytorch_model.bin) are both missing; choose a folder in Hugging Face layout"
    );
    fs::write(empty.path().join("notes.txt"), "not a model").unwrap();
    assert!(message(empty.path()).starts_with("FOLDER holds no GPT-2"));
    assert!(message(&empty.path().join("nowhere")).contains("FOLDER does not exist"));
    // A picked file of a model stands for the folder that it lies in; any other does not.
    fs::write(empty.path().join("vocab.json"), "{}").unwrap();
    assert!(message(&empty.path().join("vocab.json")).contains(" holds no GPT-2: config.json"));
    assert!(message(&empty.path().join("notes.txt")).starts_with("FOLDER is no file of a model"));

    let no_config = copy("safetensors");
    fs::remove_file(no_config.path().join("config.json")).unwrap();
    assert_eq!(
        message(no_config.path()),
        "FOLDER has weights but no config.json, and the tensors do not tell n_head; copy the \
         config.json that belongs to them into the folder"
    );

    let no_weights = copy("safetensors");
    fs::remove_file(no_weights.path().join("model.safetensors")).unwrap();
    assert!(message(no_weights.path()).starts_with("FOLDER has a config.json but neither"));
}

#[test]
fn missing_tokenizers_say_what_is_there() {
    let text = |folder: &Path| folder_tokenizer_files(folder).unwrap_err().to_string();
    let empty = tempfile::tempdir().unwrap();
    assert!(text(empty.path()).contains("has no tokenizer.json, nor vocab.json with merges.txt"));
    for (has, lacks) in [("vocab.json", "merges.txt"), ("merges.txt", "vocab.json")] {
        let half = tempfile::tempdir().unwrap();
        fs::write(half.path().join(has), "{}").unwrap();
        assert!(text(half.path()).ends_with(&format!(
            "has {has} but no {lacks}; copy the {lacks} that belongs to the model into the folder"
        )));
    }
}

#[test]
fn damaged_weight_files_are_named() {
    let folder = copy("safetensors");
    let path = folder.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;

    for (length, expected) in [
        (
            0,
            "model.safetensors is not a safetensors file: it has only 0 bytes; download it again",
        ),
        (
            7,
            "model.safetensors is not a safetensors file: it has only 7 bytes; download it again",
        ),
        (
            header - 1,
            "model.safetensors is cut short: its header promises",
        ),
        (
            header,
            "model.safetensors is cut short: its header promises 432496 bytes",
        ),
        (
            whole.len() - 1,
            "model.safetensors is cut short: its header promises 432496 bytes, \
             the file has 432495; download it again",
        ),
    ] {
        fs::write(&path, &whole[..length]).unwrap();
        let found = message(folder.path());
        assert!(found.starts_with(expected), "{length} bytes: {found}");
    }

    let mut longer = whole.clone();
    longer.push(0);
    fs::write(&path, longer).unwrap();
    assert_eq!(
        message(folder.path()),
        "model.safetensors has 432497 bytes, but its header accounts for only 432496; \
         download it again"
    );

    let mut huge = whole.clone();
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    fs::write(&path, huge).unwrap();
    assert!(message(folder.path()).contains("its header claims 18446744073709551615 bytes"));

    let mut garbled = whole;
    garbled[9] = b'!';
    fs::write(&path, garbled).unwrap();
    assert!(message(folder.path()).contains("its header cannot be read"));
}

#[test]
fn sizes_that_do_not_match_the_weights_are_named() {
    let folder = copy("safetensors");
    for (changes, expected) in [
        (
            vec![("n_embd", json!(96))],
            "model.safetensors: the tensor wte.weight has shape [400, 48], but config.json asks for \
             [400, 96]; the two do not belong together",
        ),
        (
            vec![("vocab_size", json!(500))],
            "model.safetensors: the tensor wte.weight has shape [400, 48], but config.json asks for \
             [500, 48]; the two do not belong together",
        ),
        (
            vec![("n_positions", json!(32))],
            "model.safetensors: the tensor wpe.weight has shape [64, 48], but config.json asks for \
             [32, 48]; the two do not belong together",
        ),
        (
            vec![("n_inner", json!(200))],
            "model.safetensors: the tensor h.0.mlp.c_fc.weight has shape [48, 192], but config.json \
             asks for [48, 200]; the two do not belong together",
        ),
        (
            vec![("n_layer", json!(4))],
            "model.safetensors lacks the tensor h.3.ln_1.weight, which config.json calls for",
        ),
        (
            vec![("n_layer", json!(2))],
            "model.safetensors holds the tensor h.2.attn.c_attn.bias, which a GPT-2 with this \
             config.json does not have; allow unknown tensors (--allow-unknown-tensors) to load the \
             model without it",
        ),
        (
            vec![("tie_word_embeddings", json!(false))],
            "model.safetensors lacks the tensor lm_head.weight, which config.json calls for",
        ),
    ] {
        fs::write(folder.path().join("config.json"), config_with(&changes)).unwrap();
        assert_eq!(message(folder.path()), expected);
    }
}

fn write(folder: &Path, tensors: &Tensors) {
    write_safetensors(&folder.join("model.safetensors"), tensors);
}

#[test]
fn tensors_that_do_not_belong_are_named() {
    let folder = copy("vocab-and-merges");
    let zero = || (Dtype::F32, vec![1], vec![0; 4]);

    let mut extra = tensors();
    extra.insert("h.0.attn.rotary".into(), zero());
    write(folder.path(), &extra);
    assert_eq!(
        message(folder.path()),
        "model.safetensors holds the tensor h.0.attn.rotary, which a GPT-2 with this config.json \
         does not have; allow unknown tensors (--allow-unknown-tensors) to load the model without it"
    );

    let mut beyond = tensors();
    beyond.insert(
        "h.1.attn.c_proj.weight".into(),
        f32s(
            &[48, 48],
            (0..48 * 48).map(|i| if i == 7 { -7e4 } else { 6.5e4 }),
        ),
    );
    write(folder.path(), &beyond);
    assert!(load(folder.path()).is_ok());
    let half = WeightOptions {
        precision: Precision::F16,
        ..Default::default()
    };
    let source = ModelSource::Folder(folder.path().into());
    let go_on = &mut |_, _| ControlFlow::Continue(());
    let error = Gpt2::load_with(&source, &ComputeDevice::flex(), half, go_on).unwrap_err();
    assert_eq!(
        error.to_string(),
        "model.safetensors: the tensor h.1.attn.c_proj.weight holds -70000, which is beyond the range of f16 \
         (65,504); load the model in f32"
    );

    let mut mask_of_no_layer = tensors();
    mask_of_no_layer.insert("h.3.attn.bias".into(), zero());
    write(folder.path(), &mask_of_no_layer);
    assert!(message(folder.path()).contains("holds the tensor h.3.attn.bias"));

    let mut missing = tensors();
    missing.remove("h.1.ln_2.bias");
    write(folder.path(), &missing);
    assert!(message(folder.path()).contains("lacks the tensor h.1.ln_2.bias"));

    let mut integer = tensors();
    let (dtype, ..) = integer.get_mut("h.1.ln_2.bias").unwrap();
    *dtype = Dtype::I32;
    write(folder.path(), &integer);
    assert_eq!(
        message(folder.path()),
        "model.safetensors: the tensor h.1.ln_2.bias has type I32; only F32, F16 and BF16 can be read"
    );

    let mut twice = tensors();
    let copy = twice["wte.weight"].clone();
    twice.insert("transformer.wte.weight".into(), copy);
    write(folder.path(), &twice);
    assert!(message(folder.path()).contains("holds the tensor wte.weight twice"));

    let mut short_head = tensors();
    short_head.insert("lm_head.weight".into(), zero());
    write(folder.path(), &short_head);
    assert!(message(folder.path()).contains("the tensor lm_head.weight has shape [1]"));
}

#[test]
fn a_head_of_its_own_is_used_with_its_bias() {
    let folder = copy("vocab-and-merges");
    let record = logitscope::model::Record::default();
    let logits = |folder: &Path| {
        let model = load(folder).unwrap();
        model
            .forward(&[1, 2, 3], &mut model.new_cache(), &record)
            .unwrap()
            .logits
    };
    let tied = logits(folder.path());

    // A head of twice the table, and a bias that counts up.
    let mut own = tensors();
    let (dtype, shape, table) = own["wte.weight"].clone();
    let values = |bytes: &[u8]| -> Vec<f32> {
        bytes
            .chunks(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    };
    let doubled = values(&table)
        .iter()
        .flat_map(|x| (2.0 * x).to_le_bytes())
        .collect();
    own.insert("lm_head.weight".into(), (dtype, shape, doubled));
    let bias: Vec<f32> = (0..400).map(|i| i as f32).collect();
    let bias_bytes = bias.iter().flat_map(|x| x.to_le_bytes()).collect();
    own.insert("lm_head.bias".into(), (Dtype::F32, vec![400], bias_bytes));
    write(folder.path(), &own);
    for ((found, tied), bias) in logits(folder.path()).iter().zip(&tied).zip(&bias) {
        assert!(
            (found - (2.0 * tied + bias)).abs() < 1e-2,
            "{found} {tied} {bias}"
        );
    }
}

#[test]
fn broken_shard_indexes_are_told_apart() {
    let index = "model.safetensors.index.json";
    let folder = copy("sharded");
    fs::remove_file(folder.path().join("model-00003-of-00006.safetensors")).unwrap();
    assert_eq!(
        message(folder.path()),
        "model.safetensors.index.json names the shard model-00003-of-00006.safetensors, which is \
         missing from the folder; download it"
    );

    let folder = copy("sharded");
    let text = fs::read_to_string(folder.path().join(index)).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    let map = json["weight_map"].as_object_mut().unwrap();
    let key = map
        .keys()
        .find(|k| k.ends_with("wpe.weight"))
        .unwrap()
        .clone();
    let right = map[&key].clone();
    map[&key] = json!(if right == "model-00006-of-00006.safetensors" {
        "model-00001-of-00006.safetensors"
    } else {
        "model-00006-of-00006.safetensors"
    });
    fs::write(folder.path().join(index), json.to_string()).unwrap();
    let found = message(folder.path());
    assert!(
        found.contains("wpe.weight, but it does not; the index is stale"),
        "{found}"
    );

    for shard in ["../secret.safetensors", "/etc/passwd", "", ".."] {
        json["weight_map"][&key] = json!(shard);
        fs::write(folder.path().join(index), json.to_string()).unwrap();
        assert_eq!(
            message(folder.path()),
            format!(
                "model.safetensors.index.json: \"{shard}\" is not a file name inside the folder"
            )
        );
    }
    fs::write(folder.path().join(index), "{}").unwrap();
    assert!(message(folder.path()).starts_with("model.safetensors.index.json: not a shard index"));
}

#[test]
fn random_weights_of_bad_sizes_are_refused() {
    let mut config = Gpt2Config::shape("gpt2").unwrap();
    config.n_head = 0;
    let source = ModelSource::Random(config, 1);
    let error = Gpt2::load(&source, &ComputeDevice::flex(), &mut |_, _| {
        ControlFlow::Continue(())
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "config.json: n_head is 0; it must be between 1 and 65536"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// No config text makes the parser panic.
    #[test]
    fn any_config_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = Gpt2Config::from_json(&text);
    }

    /// No number in any key makes validation panic.
    #[test]
    fn any_sizes_are_read_or_refused(
        key in prop::sample::select(vec![
            "n_embd", "n_layer", "n_head", "vocab_size", "n_positions", "n_inner", "eos_token_id",
        ]),
        value in prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (0u64..100).prop_map(Value::from),
        ],
    ) {
        let _ = Gpt2Config::from_json(&config_with(&[(key, value)]));
    }

    /// A damaged header is an error, or the damage did not matter; never a panic.
    #[test]
    fn any_damage_to_a_weight_file_is_survived(
        position in 0usize..6000,
        bytes in prop::collection::vec(any::<u8>(), 1..8),
    ) {
        let folder = copy("vocab-and-merges");
        let path = folder.path().join("model.safetensors");
        let mut file = fs::read(&path).unwrap();
        for (offset, byte) in bytes.into_iter().enumerate() {
            file[position + offset] = byte;
        }
        fs::write(&path, file).unwrap();
        let _ = load(folder.path());
    }
}
