//! The sizes of a GPT-2 without a config.json, as far as its tensors tell them.
//!
//! All sizes but one are shapes. The number of heads is in no tensor: it is taken where GPT-2 was
//! published in that width, and asked for otherwise. A wrong one would give wrong numbers silently.

use std::path::Path;

use super::{config::Gpt2Config, error::ModelError, tensor_files::TensorFiles};

/// Infer the sizes, and say in one sentence what was taken.
///
/// # Errors
/// Where the tensors are not a GPT-2's, or their width is not one that GPT-2 was published in.
pub(super) fn infer_config(
    folder: &Path,
    files: &TensorFiles,
) -> Result<(Gpt2Config, String), ModelError> {
    let unknown = |key| ModelError::NoConfig {
        folder: folder.into(),
        key,
    };
    let matrix = |name: &str| match files.shape(name) {
        Some(&[rows, columns]) => Ok([rows, columns]),
        _ => Err(ModelError::MissingTensor {
            file: files.file_of(name),
            name: name.into(),
        }),
    };
    let [vocab_size, n_embd] = matrix("wte.weight")?;
    let [n_ctx, _] = matrix("wpe.weight")?;
    let layer = |name: &str| {
        name.strip_prefix("h.")?
            .split_once('.')?
            .0
            .parse::<usize>()
            .ok()
    };
    let n_layer = files.names().filter_map(layer).max();
    let n_layer = n_layer.map_or(0, |last| last.saturating_add(1));
    let n_inner = match matrix("h.0.mlp.c_fc.weight")? {
        [d, inner] if d == n_embd => inner,
        [inner, d] if d == n_embd => inner,
        _ => return Err(unknown("n_inner")),
    };
    let published = ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"]
        .into_iter()
        .filter_map(Gpt2Config::shape)
        .find(|shape| shape.n_embd == n_embd)
        .ok_or_else(|| unknown("n_head"))?;
    let config = Gpt2Config {
        vocab_size,
        n_ctx,
        n_layer,
        n_inner,
        tie_word_embeddings: !files.names().any(|name| name == "lm_head.weight"),
        bos_token_id: None,
        eos_token_id: None,
        ..published
    };
    config.validate()?;
    let note = format!(
        "config.json is missing: sizes taken from the tensors, {} heads as the published GPT-2 of \
         width {n_embd}, all other settings as GPT-2's",
        config.n_head
    );
    Ok((config, note))
}
