//! Whether the files hold the GPT-2 that config.json describes, before a weight is read.
//!
//! Owns the list of tensors a GPT-2 has, what may be ignored, which way round the matrices lie and
//! how many tokens there are. It reads names, shapes and types only.

use std::{collections::HashSet, path::Path};

use super::{
    config::Gpt2Config, error::ModelError, source::named_tokens, tensor_files::TensorFiles,
};

/// What the files turned out to be.
pub(super) struct Survey {
    /// Tensors that a GPT-2 does not have and that the user allows: they are not read.
    pub unknown: Vec<String>,
    /// Bytes of the weights that will be read.
    pub bytes: u64,
    /// The matrices lie as `[out, in]`, as `torch.nn.Linear` has them.
    pub linear: bool,
    /// There is a head besides the token table.
    pub own_head: bool,
}

/// Check every tensor of the files against the config.
///
/// # Errors
/// The first tensor that is unknown, unless that is allowed, missing or of the wrong shape or type.
pub(super) fn survey(
    files: &TensorFiles,
    config: &Gpt2Config,
    allow_unknown: bool,
) -> Result<Survey, ModelError> {
    let mut unknown = Vec::new();
    let wanted = tensor_list(config);
    let known: HashSet<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
    for name in files.names() {
        let known = known.contains(name)
            || matches!(name, "lm_head.weight" | "lm_head.bias")
            || is_mask(name, config.n_layer);
        if !known && allow_unknown {
            unknown.push(name.to_owned());
        } else if !known {
            return Err(ModelError::UnknownTensor {
                file: files.file_of(name),
                name: name.into(),
            });
        }
    }
    let mut bytes = 0;
    let linear = has_linear_weights(files, config)?;
    for (name, shape) in &wanted {
        if name == "wte.weight" {
            bytes += check_table(files, name, shape)?;
            continue;
        }
        let stored: Vec<usize> = if linear && is_matrix(name) {
            shape.iter().rev().copied().collect()
        } else {
            shape.clone()
        };
        files.check(name, &stored)?;
        bytes += files.bytes_of(name);
    }
    let head_shape = [config.vocab_size, config.n_embd];
    let own_head = !config.tie_word_embeddings || files.contains("lm_head.weight");
    if own_head {
        bytes += check_table(files, "lm_head.weight", &head_shape)?;
    }
    if files.contains("lm_head.bias") {
        bytes += check_table(files, "lm_head.bias", &head_shape[..1])?;
    }
    Ok(Survey {
        unknown,
        bytes,
        linear,
        own_head,
    })
}

/// Settle how many tokens the model has where its table has more rows than config.json says, and
/// say so.
///
/// Rows for tokens that the tokenizer names were added to the vocabulary; the rest is padding,
/// whose logits mean nothing, so it is not loaded.
pub(super) fn fit_vocabulary(
    config: &mut Gpt2Config,
    files: &TensorFiles,
    folder: &Path,
) -> Option<String> {
    let rows_of = |name: &str| files.shape(name).and_then(|shape| shape.first().copied());
    let table = rows_of("wte.weight")?;
    let rows = table.min(rows_of("lm_head.weight").unwrap_or(table));
    let promised = config.vocab_size;
    if rows <= promised {
        return None;
    }
    config.vocab_size = named_tokens(folder).unwrap_or(0).max(promised).min(rows);
    Some(format!(
        "config.json says {promised} tokens, the token table has {rows} rows: {} are used",
        config.vocab_size
    ))
}

/// Check a tensor with a row for each token, of which there may be more than `shape` says. Returns
/// the bytes of the rows that are used.
fn check_table(files: &TensorFiles, name: &str, shape: &[usize]) -> Result<u64, ModelError> {
    let mut stored = shape.to_vec();
    if let (Some(rows), Some(found)) = (stored.first_mut(), files.shape(name)) {
        *rows = found.first().map_or(*rows, |&found| found.max(*rows));
    }
    files.check(name, &stored)?;
    let values = |shape: &[usize]| shape.iter().map(|&n| n as u64).product::<u64>();
    Ok(files.bytes_of(name) / values(&stored).max(1) * values(shape))
}

/// Every tensor a GPT-2 of these sizes has beside its head, with its shape in the file.
fn tensor_list(config: &Gpt2Config) -> Vec<(String, Vec<usize>)> {
    let &Gpt2Config {
        vocab_size,
        n_ctx,
        n_embd,
        n_inner,
        ..
    } = config;
    let mut list = vec![
        ("wte.weight".to_owned(), vec![vocab_size, n_embd]),
        ("wpe.weight".to_owned(), vec![n_ctx, n_embd]),
    ];
    for layer in 0..config.n_layer {
        let mut add = |part: &str, shape: &[usize]| {
            list.push((format!("h.{layer}.{part}.weight"), shape.to_vec()));
            // A bias is as long as the weight's last axis.
            list.push((
                format!("h.{layer}.{part}.bias"),
                shape[shape.len() - 1..].to_vec(),
            ));
        };
        add("ln_1", &[n_embd]);
        add("attn.c_attn", &[n_embd, 3 * n_embd]);
        add("attn.c_proj", &[n_embd, n_embd]);
        add("ln_2", &[n_embd]);
        add("mlp.c_fc", &[n_embd, n_inner]);
        add("mlp.c_proj", &[n_inner, n_embd]);
    }
    list.push(("ln_f.weight".to_owned(), vec![n_embd]));
    list.push(("ln_f.bias".to_owned(), vec![n_embd]));
    list
}

/// Whether `name` is one of a block's four matrices.
fn is_matrix(name: &str) -> bool {
    name.strip_prefix("h.").is_some_and(|rest| {
        [".c_attn.weight", ".c_proj.weight", ".c_fc.weight"]
            .iter()
            .any(|part| rest.ends_with(part))
    })
}

/// Whether the matrices lie as `[out, in]`, which other trainers write, and not as GPT-2's
/// `[in, out]`.
///
/// `attn.c_proj` is square and cannot tell; `attn.c_attn` never is. All that can tell must agree.
fn has_linear_weights(files: &TensorFiles, config: &Gpt2Config) -> Result<bool, ModelError> {
    let mut first: Option<(bool, String)> = None;
    for (name, shape) in tensor_list(config) {
        let [rows, columns] = shape[..] else { continue };
        let Some(&[stored_rows, stored_columns]) = files.shape(&name) else {
            continue;
        };
        if !is_matrix(&name) || rows == columns {
            continue;
        }
        let linear = match (stored_rows, stored_columns) {
            stored if stored == (rows, columns) => false,
            stored if stored == (columns, rows) => true,
            // The check against the config names this one.
            _ => continue,
        };
        match &first {
            None => first = Some((linear, name)),
            Some((seen, _)) if *seen == linear => {}
            Some((_, other)) => {
                return Err(ModelError::MixedLayout {
                    file: files.file_of(&name),
                    name,
                    other: other.clone(),
                });
            }
        }
    }
    Ok(first.is_some_and(|(linear, _)| linear))
}

/// `h.N.attn.bias` and `h.N.attn.masked_bias`: the causal mask that old checkpoints carry along.
fn is_mask(name: &str, n_layer: usize) -> bool {
    let Some((layer, part)) = name
        .strip_prefix("h.")
        .and_then(|rest| rest.split_once('.'))
    else {
        return false;
    };
    matches!(part, "attn.bias" | "attn.masked_bias")
        && layer.parse::<usize>().is_ok_and(|layer| layer < n_layer)
}
