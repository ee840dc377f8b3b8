//! The window as its user drives it: the real [`App`](logitscope::app::App), found by accessible names, its worker
//! played by the test except where a file says otherwise.

#[path = "../support/hub_server.rs"]
#[allow(dead_code)]
mod hub_server;
#[path = "../support/player.rs"]
mod player;
#[path = "../support/window.rs"]
mod window;

mod bad_input;
mod cost;
mod files;
mod history;
mod hub;
mod lm_head;
mod loop_panels;
mod losing_nothing;
mod models;
mod open_model;
mod panels;
mod real_worker;
mod restart;
mod selection;
mod sizes;
mod toy;
mod typing;
mod what_if;
