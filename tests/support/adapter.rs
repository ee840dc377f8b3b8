//! The adapter that device tests run on.

use logitscope::model::{ComputeDevice, ModelError};

/// A GPU, a software one too. Without any, a test says so and passes, unless
/// `LOGITSCOPE_REQUIRE_ADAPTER=1` makes that a failure, as it is in CI.
pub fn gpu(test: &str) -> Option<ComputeDevice> {
    match ComputeDevice::gpu(true) {
        Ok(device) => Some(device),
        Err(ModelError::NoAdapter(why)) => {
            let required = std::env::var("LOGITSCOPE_REQUIRE_ADAPTER").is_ok_and(|v| v == "1");
            assert!(!required, "{test} needs an adapter: {why}");
            println!("{test}: no adapter ({why}), nothing tested");
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}
