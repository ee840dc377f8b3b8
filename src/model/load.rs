//! From a model source to a network on a device, one tensor at a time.
//!
//! Owns how each tensor is laid out on the device; `survey` checks every name, shape and type before
//! the first weight is read. Runs on the worker's thread; `progress` is called between pieces of about a megabyte and may cancel.

use std::ops::ControlFlow;

use burn::{
    module::{Param, ParamId},
    tensor::{Device, Tensor, TensorData},
};
use half::{f16, slice::HalfFloatSliceExt};
use rayon::prelude::*;

use super::{
    config::Gpt2Config,
    device::{ComputeDevice, DeviceKind},
    error::ModelError,
    gpt2::Gpt2,
    layers::{Attention, Block, Conv1d, LayerNorm, Mlp, Network, ShardedTable},
    precision::{Precision, WeightOptions},
    random_weights::random_values,
    source::{
        BUILT_IN_WEIGHTS, ModelSource, check_picked, folder_config, model_folder, source_config,
    },
    survey::{fit_vocabulary, survey},
    tensor_files::TensorFiles,
};

impl Gpt2 {
    /// As [`Self::load_with`], in f32 and with no unknown tensor allowed.
    ///
    /// # Errors
    /// As [`Self::load_with`].
    pub fn load(
        source: &ModelSource,
        device: &ComputeDevice,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Self, ModelError> {
        Self::load_with(source, device, WeightOptions::default(), progress)
    }

    /// Load a model onto a device.
    ///
    /// `progress` hears how many bytes of weights have been read of how many, and may break off.
    /// Memory stays at the weights and one tensor in f32.
    ///
    /// # Errors
    /// Where the source holds no GPT-2 that can be read, the device cannot take it or lacks the
    /// precision, or `progress` breaks.
    pub fn load_with(
        source: &ModelSource,
        device: &ComputeDevice,
        options: WeightOptions,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Self, ModelError> {
        let WeightOptions {
            precision,
            allow_unknown_tensors,
        } = options;
        if !device.has(precision) {
            return Err(ModelError::NoF16 {
                device: device.name.clone(),
            });
        }
        let mut notes = Vec::new();
        let (mut config, weights) = match source {
            ModelSource::BuiltIn => {
                let files = TensorFiles::from_bytes("the built-in model", BUILT_IN_WEIGHTS)?;
                (source_config(source)?, Weights::Files(files))
            }
            ModelSource::Folder(path) => {
                check_picked(path)?;
                let folder = model_folder(path);
                let (mut config, note) = folder_config(&folder)?;
                notes.extend(note);
                let files = TensorFiles::open_folder(&folder)?;
                notes.extend(
                    files
                        .strays
                        .iter()
                        .map(|stray| format!("{stray} is named by no index and was not read")),
                );
                notes.extend(fit_vocabulary(&mut config, &files, &folder));
                (config, Weights::Files(files))
            }
            ModelSource::Toy(_) => return Err(ModelError::Typed),
            ModelSource::Random(_, seed) => {
                let weights = Weights::Random {
                    seed: *seed,
                    tensors: 0,
                };
                (source_config(source)?, weights)
            }
        };
        check_device(&config, device)?;
        let mut loader = Loader {
            weights,
            config: &config,
            device: &device.burn,
            precision,
            // Decoding on the CPU streams weights row by row, so outputs become rows in memory.
            transpose: device.kind == DeviceKind::Cpu,
            linear: false,
            table_bytes: match precision {
                Precision::F32 => device.max_storage_binding_bytes,
                // A shard is widened to f32 whole when many rows go through it.
                Precision::F16 => device.max_storage_binding_bytes.min(WIDENED_BYTES),
            },
            done: 0,
            total: 0,
            progress,
        };
        let (own_head, unknown) = loader.survey(allow_unknown_tensors)?;
        notes.extend(ignored(&unknown));
        if loader.linear {
            notes.push("the matrices lie as [out, in] and were transposed".into());
        }
        let network = loader.network(own_head)?;
        // What was found counts, not what config.json says: the sizes that are shown follow from it.
        config.tie_word_embeddings = network.lm_head.is_none();
        Ok(Self {
            config,
            notes,
            precision,
            network,
            device: device.burn.clone(),
            binding_limit: device.max_storage_binding_bytes,
        })
    }
}

/// Largest shard of a table in f16, in bytes of f32: what is widened at once.
const WIDENED_BYTES: u64 = 32 << 20;

/// Weights that one thread rounds at once.
const CHUNK: usize = 1 << 16;

/// Which tensors were left out, the first few by name.
fn ignored(unknown: &[String]) -> Option<String> {
    const NAMED: usize = 3;
    let named = unknown.get(..NAMED).unwrap_or(unknown).join(", ");
    match unknown.len() {
        0 => None,
        1 => Some(format!("the unknown tensor {named} was not read")),
        n if n <= NAMED => Some(format!("the unknown tensors {named} were not read")),
        n => Some(format!(
            "{n} unknown tensors were not read: {named} and {} more",
            n - NAMED
        )),
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
    precision: Precision,
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
    /// model has a head of its own, and the tensors that are left out.
    fn survey(&mut self, allow_unknown: bool) -> Result<(bool, Vec<String>), ModelError> {
        let Weights::Files(files) = &self.weights else {
            self.total = 4 * self.config.parameters();
            return Ok((!self.config.tie_word_embeddings, Vec::new()));
        };
        let survey = survey(files, self.config, allow_unknown)?;
        self.total = survey.bytes;
        self.linear = survey.linear;
        Ok((survey.own_head, survey.unknown))
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
        let wpe = self.matrix("wpe.weight", wpe, [n_ctx, n_embd])?;
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
        let full_name = format!("{name}.weight");
        let weight = self.values(&full_name, 0, inputs * outputs)?;
        let bias = self.values(&format!("{name}.bias"), 0, outputs)?;
        let weight = if self.linear == self.transpose {
            weight
        } else if self.linear {
            transposed(&weight, outputs, inputs)
        } else {
            transposed(&weight, inputs, outputs)
        };
        let weight = if self.transpose {
            let by_output = self.matrix(&full_name, weight, [outputs, inputs])?;
            Param::initialized(ParamId::new(), by_output.val().transpose())
        } else {
            self.matrix(&full_name, weight, [inputs, outputs])?
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
            weight.push(self.matrix(name, values, [count, width])?);
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

    /// A tensor of two axes, in the chosen precision.
    fn matrix(
        &self,
        name: &str,
        values: Vec<f32>,
        shape: [usize; 2],
    ) -> Result<Param<Tensor<2>>, ModelError> {
        if self.precision == Precision::F32 {
            return Ok(self.tensor(values, shape));
        }
        let mut halves = vec![f16::ZERO; values.len()];
        let overflow = values
            .par_chunks(CHUNK)
            .zip(halves.par_chunks_mut(CHUNK))
            .find_map_any(|(values, halves)| {
                halves.convert_from_f32_slice(values);
                let lost = |(value, half): (&f32, &f16)| {
                    (value.is_finite() && !half.is_finite()).then_some(*value)
                };
                values.iter().zip(&*halves).find_map(lost)
            });
        if let Some(value) = overflow {
            let file = match &self.weights {
                Weights::Files(files) => files.file_of(name),
                Weights::Random { .. } => "the random model".to_owned(),
            };
            return Err(ModelError::BeyondF16 {
                file,
                name: name.into(),
                value,
            });
        }
        let data = TensorData::new(halves, shape);
        let tensor = Tensor::from_data(data, (self.device, self.precision.dtype()));
        Ok(Param::initialized(ParamId::new(), tensor))
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
