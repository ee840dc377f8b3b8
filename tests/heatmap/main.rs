//! The attention heatmap read back pixel by pixel, on whatever adapter there is (a software one counts), and its twin
//! on the CPU. Without an adapter these tests say so and pass, unless LOGITSCOPE_REQUIRE_ADAPTER=1.

#[path = "../support/player.rs"]
mod player;
#[path = "../support/window.rs"]
mod window;

mod built_in;
mod flows;
mod one_head;
mod record;
mod stage;
mod wall;
