//! The files of FORMAT.md, and their transcript: what both programs share.

pub mod container;
pub mod key;
pub mod traces;
pub mod transcript;
