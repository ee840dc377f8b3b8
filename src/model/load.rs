//! From a model source to a network on a device, one tensor at a time.
//!
//! Owns the list of tensors a GPT-2 has, what may be ignored, and how each is laid out on the
//! device. Every name, shape and type is checked before the first weight is read. Runs on the
//! worker's thread; `progress` is called between pieces of about a megabyte and may cancel.

use std::{collections::HashSet, ops::ControlFlow};

use burn::{
    module::{Param, ParamId},
    tensor::{Device, Tensor, TensorData},
};
use rayon::prelude::*;

use super::{
    config::Gpt2Config,
    device::{ComputeDevice, DeviceKind},
    error::ModelError,
    gpt2::Gpt2,
    layers::{Attention, Block, Conv1d, LayerNorm, Mlp, Network, ShardedTable},
    random_weights::random_values,
    source::{BUILT_IN_WEIGHTS, ModelSource, source_config},
    tensor_files::TensorFiles,
};

impl Gpt2 {
    /// Load a model onto a device.
    ///
    /// `progress` hears how many bytes of weights have been read of how many, and may break off.
    /// Memory stays at the weights and one tensor.
    pub fn load(
        source: &ModelSource,
        device: &ComputeDevice,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Self, ModelError> {
        let config = source_config(source)?;
        check_device(&config, device)?;
        let weights = match source {
            ModelSource::BuiltIn => Weights::Files(TensorFiles::from_bytes(
                "the built-in model",
                BUILT_IN_WEIGHTS,
            )?),
            ModelSource::Folder(folder) => Weights::Files(TensorFiles::open_folder(folder)?),
            ModelSource::Random(_, seed) => Weights::Random {
                seed: *seed,
                tensors: 0,
            },
        };
        let mut loader = Loader {
            weights,
            config: &config,
            device: &device.burn,
            // Decoding on the CPU streams weights row by row, so outputs become rows in memory.
            transpose: device.kind == DeviceKind::Cpu,
            linear: false,
            table_bytes: device.max_storage_binding_bytes,
            done: 0,
            total: 0,
            progress,
        };
        let own_head = loader.survey()?;
        let network = loader.network(own_head)?;
        Ok(Self {
            config,
            network,
            device: device.burn.clone(),
            binding_limit: device.max_storage_binding_bytes,
        })
    }
}

/// Refuse what the device cannot bind in one piece and cannot be split.
fn check_device(config: &Gpt2Config, device: &ComputeDevice) -> Result<(), ModelError> {
    let d = config.n_embd as u64;
    let pieces = [
        ("one row of wte.weight", d),
        ("wpe.weight", config.n_ctx as u64 * d),
        ("attn.c_attn.weight", 3 * d * d),
        ("mlp.c_fc.weight", d * config.n_inner as u64),
    ];
    for (name, values) in pieces {
        let bytes = 4 * values;
        if bytes > device.max_storage_binding_bytes {
            return Err(ModelError::TooLargeForDevice {
                name: name.into(),
                bytes,
                limit: device.max_storage_binding_bytes,
                device: device.name.clone(),
            });
        }
    }
    Ok(())
}

enum Weights {
    Files(TensorFiles),
    /// Uniform numbers with GPT-2's standard deviation; `tensors` counts those made so far.
    Random {
        seed: u64,
        tensors: u64,
    },
}

struct Loader<'a> {
    weights: Weights,
    config: &'a Gpt2Config,
    device: &'a Device,
    transpose: bool,
    /// The file's matrices are `[out, in]`, as `torch.nn.Linear` has them.
    linear: bool,
    table_bytes: u64,
    done: u64,
    total: u64,
    progress: &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>,
}

impl Loader<'_> {
    /// Check every tensor of the files against the config before reading any. Returns whether the
    /// model has a head of its own.
    fn survey(&mut self) -> Result<bool, ModelError> {
        let wanted = tensor_list(self.config);
        let Weights::Files(files) = &self.weights else {
            self.total = 4 * self.config.parameters();
            return Ok(!self.config.tie_word_embeddings);
        };
        let known: HashSet<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
        for name in files.names() {
            let known = known.contains(name)
                || matches!(name, "lm_head.weight" | "lm_head.bias")
                || is_mask(name, self.config.n_layer);
            if !known {
                return Err(ModelError::UnknownTensor {
                    file: files.file_of(name),
                    name: name.into(),
                });
            }
        }
        self.linear = has_linear_weights(files, self.config)?;
        for (name, shape) in &wanted {
            let stored: Vec<usize> = if self.linear && is_matrix(name) {
                shape.iter().rev().copied().collect()
            } else {
                shape.clone()
            };
            files.check(name, &stored)?;
            self.total += files.bytes_of(name);
        }
        let head_shape = [self.config.vocab_size, self.config.n_embd];
        let mut own_head = !self.config.tie_word_embeddings;
        if own_head || files.contains("lm_head.weight") {
            files.check("lm_head.weight", &head_shape)?;
            self.total += files.bytes_of("lm_head.weight");
            own_head = true;
        }
        if files.contains("lm_head.bias") {
            files.check("lm_head.bias", &head_shape[..1])?;
            self.total += files.bytes_of("lm_head.bias");
        }
        Ok(own_head)
    }

    fn network(&mut self, own_head: bool) -> Result<Network, ModelError> {
        let Gpt2Config {
            vocab_size,
            n_ctx,
            n_embd,
            ..
        } = *self.config;
        let wte = self.table("wte.weight", vocab_size, n_embd)?;
        let wpe = self.values("wpe.weight", 0, n_ctx * n_embd)?;
        let wpe = self.tensor(wpe, [n_ctx, n_embd]);
        let h = (0..self.config.n_layer)
            .map(|layer| self.block(layer))
            .collect::<Result<_, _>>()?;
        let ln_f = self.layer_norm("ln_f")?;
        let lm_head = if own_head && !self.head_is_table()? {
            Some(self.table("lm_head.weight", vocab_size, n_embd)?)
        } else {
            None
        };
        let has_bias =
            matches!(&self.weights, Weights::Files(files) if files.contains("lm_head.bias"));
        let lm_head_bias = has_bias
            .then(|| self.values("lm_head.bias", 0, vocab_size))
            .transpose()?;
        Ok(Network {
            wte,
            wpe,
            h,
            ln_f,
            lm_head,
            lm_head_bias,
        })
    }

    fn block(&mut self, layer: usize) -> Result<Block, ModelError> {
        let Gpt2Config {
            n_embd, n_inner, ..
        } = *self.config;
        let name = |part: &str| format!("h.{layer}.{part}");
        Ok(Block {
            ln_1: self.layer_norm(&name("ln_1"))?,
            attn: Attention {
                c_attn: self.conv1d(&name("attn.c_attn"), n_embd, 3 * n_embd)?,
                c_proj: self.conv1d(&name("attn.c_proj"), n_embd, n_embd)?,
                n_head: self.config.n_head,
                scale: self.config.score_scale(layer),
            },
            ln_2: self.layer_norm(&name("ln_2"))?,
            mlp: Mlp {
                c_fc: self.conv1d(&name("mlp.c_fc"), n_embd, n_inner)?,
                c_proj: self.conv1d(&name("mlp.c_proj"), n_inner, n_embd)?,
                activation: self.config.activation_function,
            },
        })
    }

    fn layer_norm(&mut self, name: &str) -> Result<LayerNorm, ModelError> {
        let width = self.config.n_embd;
        let weight = self.values(&format!("{name}.weight"), 0, width)?;
        let bias = self.values(&format!("{name}.bias"), 0, width)?;
        Ok(LayerNorm {
            weight: self.tensor(weight, [width]),
            bias: self.tensor(bias, [width]),
            epsilon: self.config.layer_norm_epsilon,
        })
    }

    fn conv1d(&mut self, name: &str, inputs: usize, outputs: usize) -> Result<Conv1d, ModelError> {
        let weight = self.values(&format!("{name}.weight"), 0, inputs * outputs)?;
        let bias = self.values(&format!("{name}.bias"), 0, outputs)?;
        let weight = if self.linear == self.transpose {
            weight
        } else if self.linear {
            transposed(&weight, outputs, inputs)
        } else {
            transposed(&weight, inputs, outputs)
        };
        let weight = if self.transpose {
            let by_output = weight;
            let data = TensorData::new(by_output, [outputs, inputs]);
            let tensor = Tensor::<2>::from_data(data, self.device).transpose();
            Param::initialized(ParamId::new(), tensor)
        } else {
            self.tensor(weight, [inputs, outputs])
        };
        Ok(Conv1d {
            weight,
            bias: self.tensor(bias, [outputs]),
        })
    }

    /// Read a table in shards that the device can bind.
    fn table(&mut self, name: &str, rows: usize, width: usize) -> Result<ShardedTable, ModelError> {
        let fitting = (self.table_bytes / (4 * width as u64)).max(1);
        let shard_rows = usize::try_from(fitting).unwrap_or(usize::MAX).min(rows);
        let mut weight = Vec::new();
        for first in (0..rows).step_by(shard_rows) {
            let count = shard_rows.min(rows - first);
            let values = self.values(name, first * width, count * width)?;
            weight.push(self.tensor(values, [count, width]));
        }
        Ok(ShardedTable { weight })
    }

    /// Whether the file's head repeats its token table, so that one copy will do.
    fn head_is_table(&mut self) -> Result<bool, ModelError> {
        let Weights::Files(files) = &mut self.weights else {
            return Ok(false);
        };
        if !files.is_in_rows("wte.weight") || !files.is_in_rows("lm_head.weight") {
            return Ok(false);
        }
        let width = self.config.n_embd;
        let rows_at_once = (1usize << 18).div_ceil(width);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for first in (0..self.config.vocab_size).step_by(rows_at_once) {
            let rows = rows_at_once.min(self.config.vocab_size - first);
            for (name, out) in [("wte.weight", &mut a), ("lm_head.weight", &mut b)] {
                out.clear();
                files.read(name, first * width, rows * width, out, &mut |_| Ok(()))?;
            }
            if a.iter().zip(&b).any(|(a, b)| a.to_bits() != b.to_bits()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn tensor<const D: usize>(&self, values: Vec<f32>, shape: [usize; D]) -> Param<Tensor<D>> {
        let tensor = Tensor::from_data(TensorData::new(values, shape), self.device);
        Param::initialized(ParamId::new(), tensor)
    }

    /// `count` values of a tensor from `first` on.
    fn values(&mut self, name: &str, first: usize, count: usize) -> Result<Vec<f32>, ModelError> {
        let (done, total, progress) = (&mut self.done, self.total, &mut *self.progress);
        let mut on_piece = |bytes: u64| {
            *done += bytes;
            match progress(*done, total) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(ModelError::Cancelled),
            }
        };
        let mut values = Vec::new();
        match &mut self.weights {
            Weights::Files(files) => files.read(name, first, count, &mut values, &mut on_piece)?,
            Weights::Random { seed, tensors } => {
                *tensors += 1;
                values = random_values(name, count, *seed, *tensors);
                on_piece(4 * count as u64)?;
            }
        }
        Ok(values)
    }
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

/// `[rows, columns]` to `[columns, rows]`, in tiles that stay in the cache, by all threads.
fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    const TILE: usize = 32;
    let mut out = vec![0.0; values.len()];
    out.par_chunks_mut(TILE * rows)
        .enumerate()
        .for_each(|(tile, out)| {
            let first_column = tile * TILE;
            for first_row in (0..rows).step_by(TILE) {
                for (offset, out) in out.chunks_exact_mut(rows).enumerate() {
                    let column = first_column + offset;
                    let last_row = rows.min(first_row + TILE);
                    for row in first_row..last_row {
                        out[row] = values[row * columns + column];
                    }
                }
            }
        });
    out
}
