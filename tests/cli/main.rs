//! The command line as a process: what each command prints, and how it ends.
//!
//! Numbers are compared with what transformers computes (`tests/fixtures/gpt2-tiny`, made by `make_reference.py`).
//! Everything runs on the CPU and without a display; a process is started once and looked at from several sides
//! where that is possible.

mod bad_input;
mod bad_models;
mod generate;
mod inspect;
mod measure;
mod process;
mod reference;
mod score;
mod stops;
mod window;
