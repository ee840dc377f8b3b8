//! Random weights, so that speed and memory of any size can be measured without a download.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore, SeedableRng},
};
use rayon::prelude::*;

/// Norm weights 1, biases 0, all else uniform with standard deviation 0.02.
pub(super) fn random_values(name: &str, count: usize, seed: u64, stream: u64) -> Vec<f32> {
    if name.ends_with(".bias") {
        return vec![0.0; count];
    }
    if name.contains("ln_") {
        return vec![1.0; count];
    }
    const BLOCK: usize = 1 << 16;
    let width = 0.02 * 12f32.sqrt();
    let mut values = vec![0.0; count];
    values
        .par_chunks_mut(BLOCK)
        .enumerate()
        .for_each(|(block, values)| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream((stream << 32) | block as u64);
            for value in values {
                // 24 bits are what an f32 between 0 and 1 holds.
                let unit = (rng.next_u32() >> 8) as f32 / (1 << 24) as f32;
                *value = (unit - 0.5) * width;
            }
        });
    values
}
