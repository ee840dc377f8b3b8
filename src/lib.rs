//! Logitscope: a desktop playground for watching GPT-2 choose its next token.
//!
//! ```text
//!             Command (channel)                        one OS thread owns model, KV cache, compute device
//!   UI  ───────────────────────────▶  worker ──▶ model (burn) ──▶ device (wgpu | flex)
//!   egui ◀──────────────────────────          ──▶ sampling, tokenizer
//!             Event (channel) + request_repaint
//!             Prediction, Choice: plain numbers on the CPU
//! ```
//!
//! - [`model`]: GPT-2 on burn, its KV cache, weights and compute devices.
//! - [`tokenizer`]: ids ↔ text, labels, incremental decoding.
//! - [`sampling`]: logits → distribution → token, on plain slices.
//! - [`prediction`]: what one forward pass yields, as plain numbers.
//! - [`toy`]: typed numbers in place of a model.
//! - [`explanation`]: where a distribution comes from, as plain numbers.
//! - [`session`]: text, history tree, undo, selection; no egui, burn or wgpu types.
//! - [`worker`]: the thread that owns the model, and how to talk to it.
//! - [`hub`]: models by name: find, download, verify, the shared cache.
//! - [`app`], [`ui`], [`download`], [`picker`], [`dialog`]: the window; [`heatmap`]: its one custom shader.
//! - [`export`]: pictures, tables and runs as files.
//! - [`cli`]: the same engine without a window.

pub mod app;
pub mod cli;
pub mod dialog;
pub mod download;
pub mod explanation;
pub mod export;
pub mod heatmap;
pub mod hub;
pub mod model;
pub mod picker;
pub mod prediction;
pub mod sampling;
pub mod session;
pub mod store;
pub mod tokenizer;
pub mod toy;
pub mod ui;
pub mod worker;
