//! Downloading from a Hub that behaves and from one that does not: the real client against a server on the
//! loopback address.

mod hub {
    pub mod cache;
    pub mod faults;
    pub mod support;
}
