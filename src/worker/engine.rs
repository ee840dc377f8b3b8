//! The model with its KV cache.
//!
//! The same engine serves the window (on the worker's thread) and the command line (on its own).

use std::{
    cmp::Ordering,
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Control, Event, ExplainRequest, ModelInfo, RunRequest, StopReason,
    explain::Explaining,
    generation::{Predictor, generate},
};
use crate::{
    model::{
        ComputeDevice, Gpt2, KvCache, LoadRequest, Logits, ModelError, ModelSource, Record,
        TokenizerFiles, WeightBytes, built_in_tokenizer_json, folder_tokenizer_files, model_folder,
    },
    prediction::{LogitsRow, PassTiming, Phase, Prediction},
    tokenizer::{Tokenizer, TokenizerError, VocabAndMerges},
};

/// Most tokens that one prefill pass takes: its logits stay below WebGPU's storage-binding limit.
pub const PREFILL_CHUNK: usize = 256;

/// Why the engine could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error("a random model has no tokenizer: give token ids")]
    NoTokenizer,
    #[error(
        "{bad} of the {vocab_size} logits after {tokens} tokens are not numbers, so nothing can be drawn \
         from them: the weights are damaged, or the device failed; load the model again, or choose another"
    )]
    NotNumbers {
        bad: usize,
        vocab_size: usize,
        tokens: usize,
    },
}

/// A loaded model and the keys and values of the tokens it has seen.
pub struct Engine {
    pub gpt2: Gpt2,
    pub device: ComputeDevice,
    pub(super) cache: KvCache,
    /// The tokens whose keys and values are in `cache`.
    cached: Vec<u32>,
    use_cache: bool,
    end_of_text: Option<u32>,
    tokenizer: Option<Tokenizer>,
    pub(super) explaining: Explaining,
}

impl EngineError {
    /// Refuses logits that make no distribution; `tokens` came before them.
    ///
    /// # Errors
    /// [`Self::NotNumbers`].
    pub fn check(logits: &LogitsRow, tokens: usize) -> Result<(), Self> {
        match logits.not_numbers() {
            0 => Ok(()),
            bad => Err(Self::NotNumbers {
                bad,
                vocab_size: logits.values.len(),
                tokens,
            }),
        }
    }
}

impl Engine {
    /// Reads a model and puts it on a device. `progress` is called with bytes read and bytes in all.
    ///
    /// # Errors
    /// Where the folder does not hold a GPT-2 that can be read, or the device cannot be had; also when `progress` breaks.
    pub fn load(
        request: &LoadRequest,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<(Self, ModelInfo), EngineError> {
        let started = Instant::now();
        Self::load_without_tokenizer(request, progress)?.with_tokenizer(request, started)
    }

    /// The same for work on token ids alone, which needs no tokenizer.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_for_ids(request: &LoadRequest) -> Result<Self, EngineError> {
        Self::load_without_tokenizer(request, &mut |_, _| ControlFlow::Continue(()))
    }

    fn load_without_tokenizer(
        request: &LoadRequest,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Self, EngineError> {
        let device = ComputeDevice::open(request.device)?;
        let gpt2 = Gpt2::load_with(&request.source, &device, request.weights, progress)?;
        let cache = gpt2.new_cache();
        let end_of_text = gpt2.config.eos_token_id;
        Ok(Self {
            gpt2,
            device,
            cache,
            cached: Vec::new(),
            use_cache: true,
            end_of_text,
            tokenizer: None,
            explaining: Explaining::default(),
        })
    }

    fn with_tokenizer(
        mut self,
        request: &LoadRequest,
        started: Instant,
    ) -> Result<(Self, ModelInfo), EngineError> {
        let LoadRequest {
            source, weights, ..
        } = request;
        let config = &self.gpt2.config;
        let tokenizer = Self::tokenizer_of(source)?.for_table(config.vocab_size)?;
        let mut notes = self.gpt2.notes.clone();
        notes.extend(vocabulary_note(&tokenizer, config.vocab_size));
        let in_table = |id: &u32| (*id as usize) < config.vocab_size;
        self.end_of_text = config
            .eos_token_id
            .filter(in_table)
            .or_else(|| tokenizer.end_of_text().filter(in_table));
        self.tokenizer = Some(tokenizer.clone());
        let info = ModelInfo {
            name: source.name(),
            source: source.clone(),
            tokenizer,
            n_layer: config.n_layer,
            n_head: config.n_head,
            n_embd: config.n_embd,
            n_ctx: config.n_ctx,
            vocab_size: config.vocab_size,
            end_of_text: self.end_of_text,
            parameters: config.parameters(),
            device: self.device.name.clone(),
            device_why: self.device.why.clone(),
            weights: *weights,
            weight_bytes: WeightBytes::of(config),
            notes,
            load_ms: started.elapsed().as_secs_f64() * 1e3,
        };
        Ok((self, info))
    }

    /// The tokenizer that belongs to a model.
    ///
    /// # Errors
    /// Where there is none, or it cannot be read.
    pub fn tokenizer_of(source: &ModelSource) -> Result<Tokenizer, EngineError> {
        Ok(match source {
            ModelSource::BuiltIn => Tokenizer::from_json(built_in_tokenizer_json())?,
            ModelSource::Folder(folder) => match folder_tokenizer_files(folder)? {
                TokenizerFiles::Json(json) => Tokenizer::from_json(&json)?,
                TokenizerFiles::VocabAndMerges {
                    vocab,
                    merges,
                    added_tokens,
                    special_tokens_map,
                } => Tokenizer::from_vocab_and_merges(&VocabAndMerges {
                    vocab: &vocab,
                    merges: &merges,
                    added_tokens: added_tokens.as_deref(),
                    special_tokens_map: special_tokens_map.as_deref(),
                })?,
            },
            ModelSource::Toy(toy) => toy.tokenizer().clone(),
            ModelSource::Random(..) => return Err(EngineError::NoTokenizer),
        })
    }

    /// Recomputes the whole sequence at every step, as generation without a KV cache does. A step's time is then
    /// that of the whole sequence, and its attention is not recorded.
    pub fn without_cache(mut self) -> Self {
        self.use_cache = false;
        self
    }

    pub fn end_of_text(&self) -> Option<u32> {
        self.end_of_text
    }

    pub fn n_ctx(&self) -> usize {
        self.gpt2.config.n_ctx
    }

    /// Predicts after every context position from `from` on, in chunks of at most [`PREFILL_CHUNK`] tokens;
    /// `on_chunk` gets each chunk's first position and predictions, and may break. Tokens before `from` are put
    /// through the model only where the KV cache lacks them; their chunks come without predictions.
    ///
    /// # Errors
    /// Where an id lies outside the vocabulary, the context is empty or longer than `n_ctx`, or the device fails.
    pub fn predict(
        &mut self,
        context: &[u32],
        from: usize,
        record_attention: bool,
        on_chunk: &mut dyn FnMut(usize, Vec<Prediction>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, EngineError> {
        let (tokens, n_ctx) = (context.len(), self.n_ctx());
        if tokens == 0 {
            return Err(ModelError::NoTokens.into());
        }
        if tokens > n_ctx {
            return Err(ModelError::ContextFull {
                past: 0,
                rows: tokens,
                n_ctx,
            }
            .into());
        }
        if !self.use_cache && from + 1 >= tokens {
            let prediction = self.recompute(context)?;
            return Ok(on_chunk(tokens - 1, vec![prediction]));
        }
        let mut at = if self.use_cache {
            self.cached_prefix(context).min(from)
        } else {
            0
        };
        self.cache.truncate(at);
        self.cached.truncate(at);
        while at < context.len() {
            // A chunk lies wholly before `from` or wholly after it.
            let end = if at < from {
                from.min(at + PREFILL_CHUNK)
            } else {
                context.len().min(at + PREFILL_CHUNK)
            };
            let wanted = at >= from;
            let record = Record {
                logits: if wanted { Logits::All } else { Logits::None },
                attention: wanted && record_attention,
                scores: false,
                hidden: false,
            };
            let phase = if end - at == 1 && at > 0 {
                Phase::Decode
            } else {
                Phase::Prefill
            };
            let pass = match self
                .gpt2
                .forward(&context[at..end], &mut self.cache, &record)
            {
                Ok(pass) => pass,
                Err(error) => {
                    self.forget();
                    return Err(error.into());
                }
            };
            self.cached.extend_from_slice(&context[at..end]);
            let config = &self.gpt2.config;
            let predictions = if wanted {
                Prediction::from_pass(pass, config.n_head, config.vocab_size, phase)
            } else {
                Vec::new()
            };
            if on_chunk(at, predictions).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            at = end;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// How many first tokens of a context are in the KV cache.
    pub(super) fn cached_prefix(&self, context: &[u32]) -> usize {
        let same = self.cached.iter().zip(context).take_while(|(a, b)| a == b);
        same.count()
    }

    /// The prediction after the last token, with every token put through the model once more.
    fn recompute(&mut self, context: &[u32]) -> Result<Prediction, EngineError> {
        self.cached.clear();
        let mut cache = std::mem::replace(&mut self.cache, self.gpt2.new_cache());
        let prediction =
            self.uncached_pass(context, &mut cache, &mut || ControlFlow::Continue(()))?;
        self.cache = cache;
        prediction.ok_or(ModelError::NoTokens.into())
    }

    /// The prediction after the last token as generation without a KV cache makes it: every token is put through the
    /// model, in chunks of at most [`PREFILL_CHUNK`]. Its time is that of the whole sequence; attention is not
    /// recorded. `scratch` is emptied first and holds what attention needs within the pass; the engine's own cache
    /// is not touched. `None` where `check`, asked between chunks, breaks.
    ///
    /// # Errors
    /// Where an id lies outside the vocabulary, there are more tokens than `n_ctx`, or the device fails.
    pub(super) fn uncached_pass(
        &self,
        context: &[u32],
        scratch: &mut KvCache,
        check: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Prediction>, EngineError> {
        scratch.truncate(0);
        let (mut model_ms, mut logits, mut left) = (0.0, Vec::new(), context.len());
        for chunk in context.chunks(PREFILL_CHUNK) {
            if check().is_break() {
                return Ok(None);
            }
            left -= chunk.len();
            let record = Record {
                logits: if left == 0 {
                    Logits::Last
                } else {
                    Logits::None
                },
                ..Record::default()
            };
            let pass = self.gpt2.forward(chunk, scratch, &record)?;
            model_ms += pass.model_ms;
            logits = pass.logits;
        }
        Ok(Some(Prediction {
            logits: Some(Arc::new(LogitsRow::new(logits))),
            attention: None,
            timing: Arc::new(PassTiming {
                phase: Phase::Prefill,
                first: 0,
                rows: context.len(),
                model_ms,
                record_ms: 0.0,
            }),
        }))
    }

    /// Empties the KV cache: after a failure nothing in it can be relied on.
    pub fn forget(&mut self) {
        self.cache = self.gpt2.new_cache();
        self.cached.clear();
    }

    /// Runs the generation loop until a stop, and says why it stopped.
    ///
    /// Each token is reported as [`Event::Chosen`] as soon as it is chosen, and the prediction after it, made
    /// even for the last one, as [`Event::Predicted`].
    ///
    /// # Errors
    /// As [`Self::predict`].
    pub fn generate(
        &mut self,
        request: RunRequest,
        control: &mut dyn Control,
        emit: &mut dyn FnMut(Event),
    ) -> Result<StopReason, EngineError> {
        generate(self, request, control, emit)
    }
}

impl Predictor for Engine {
    fn n_ctx(&self) -> usize {
        self.n_ctx()
    }

    fn end_of_text(&self) -> Option<u32> {
        self.end_of_text
    }

    fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    fn predict(
        &mut self,
        context: &[u32],
        from: usize,
        on_chunk: &mut dyn FnMut(usize, Vec<Prediction>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, EngineError> {
        self.predict(context, from, true, on_chunk)
    }

    fn explaining_takes(&self) -> Option<Duration> {
        self.explaining.takes
    }

    fn answer(&mut self, request: &ExplainRequest) -> Option<Event> {
        Some(self.answer(request))
    }
}

/// What is worth saying where the tokenizer and the token table differ in size.
fn vocabulary_note(tokenizer: &Tokenizer, rows: usize) -> Option<String> {
    let tokens = tokenizer.named_tokens();
    match tokens.cmp(&rows) {
        Ordering::Equal => None,
        Ordering::Less => Some(format!(
            "the tokenizer names {tokens} tokens, the token table has {rows} rows: the other rows stand for no text"
        )),
        Ordering::Greater => Some(format!(
            "the tokenizer names {tokens} tokens, the token table has {rows} rows: tokens without a row are not used"
        )),
    }
}

impl ModelSource {
    /// What the window calls the model.
    pub fn name(&self) -> String {
        match self {
            Self::BuiltIn => "storyteller".to_owned(),
            Self::Folder(folder) => folder_name(folder),
            Self::Random(..) => "random weights".to_owned(),
            Self::Toy(_) => crate::toy::NAME.to_owned(),
        }
    }
}

fn folder_name(path: &Path) -> String {
    let folder = model_folder(path);
    let folder = folder.canonicalize().unwrap_or(folder);
    if let Some(name) = crate::hub::snapshot_name(&folder) {
        return name;
    }
    folder.file_name().map_or_else(
        || folder.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DeviceChoice;

    #[test]
    fn without_the_cache_the_numbers_are_the_same_and_the_whole_sequence_is_timed() {
        let load = || {
            Engine::load_for_ids(&LoadRequest::new(ModelSource::BuiltIn, DeviceChoice::Cpu))
                .expect("the built-in model")
        };
        let ids: Vec<u32> = (0..300).map(|i| (i * 37 + 5) % 4096).collect();
        let last = |engine: &mut Engine| {
            let mut last = None;
            let _ = engine
                .predict(&ids, ids.len() - 1, true, &mut |first, mut predictions| {
                    last = predictions.pop().map(|prediction| (first, prediction));
                    ControlFlow::Continue(())
                })
                .expect("a prediction");
            last.expect("a prediction")
        };
        let (first, cached) = last(&mut load());
        assert_eq!((first, cached.timing.rows), (299, 1));
        let (first, uncached) = last(&mut load().without_cache());
        assert_eq!(
            (first, uncached.timing.rows, uncached.timing.first),
            (299, 300, 0)
        );
        let values =
            |prediction: &Prediction| prediction.logits.clone().expect("logits").values.clone();
        for (a, b) in values(&cached).iter().zip(&values(&uncached)) {
            assert!((a - b).abs() < 2e-3, "{a} {b}");
        }
    }
}
