//! Typed input and output. The encoding is postcard's (its wire format, version 1), which the module
//! `distprove.stark.riscv.values` reads and writes in Python.

use crate::guest;
use serde::de::DeserializeOwned;
use serde::Serialize;

/// The private input as a value, which must be read once. Panics if the input is no such value, or goes on behind it.
pub fn read<T: DeserializeOwned>() -> T {
    decoded(&guest::read_private(), "private")
}

/// The public input as a value, which must be read once. Panics as `read` does.
pub fn read_public_value<T: DeserializeOwned>() -> T {
    decoded(&guest::read_public(), "public")
}

/// Appends a value to the public output, filled up with zeros to a multiple of four bytes.
pub fn commit<T: Serialize + ?Sized>(value: &T) {
    write_bytes(&postcard::to_allocvec(value).expect("a value that can be written"));
}

/// Appends bytes to the public output, filled up with zeros to a multiple of four.
pub fn write_bytes(bytes: &[u8]) {
    for part in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..part.len()].copy_from_slice(part);
        guest::write_word(u32::from_le_bytes(word));
    }
}

fn decoded<T: DeserializeOwned>(bytes: &[u8], which: &str) -> T {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => value,
        Ok((_, rest)) => panic!("the {which} input has {} bytes behind its value", rest.len()),
        Err(error) => panic!("the {which} input is not of its type: {error}"),
    }
}
