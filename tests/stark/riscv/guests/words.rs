// Private input: UTF-8 text. Public output: the numbers of words and of different words, and for the word that occurs most
// often (of several the first in the order of their bytes) how often it does, its length, and its bytes.
#![no_std]
#![no_main]

#[path = "../../../../distprove/stark/riscv/runtime/guest.rs"]
mod guest;

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::string::String;

#[no_mangle]
extern "C" fn main() -> u32 {
    let Ok(text) = String::from_utf8(guest::read_private()) else {
        return 1;
    };
    let mut counts = BTreeMap::new();
    for word in text.split_ascii_whitespace() {
        *counts.entry(word).or_insert(0u32) += 1;
    }
    guest::write_word(counts.values().sum());
    guest::write_word(counts.len() as u32);
    let mut most = ("", 0);
    for (word, count) in counts {
        if count > most.1 {
            most = (word, count);
        }
    }
    guest::write_word(most.1);
    guest::write_word(most.0.len() as u32);
    for bytes in most.0.as_bytes().chunks(4) {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        guest::write_word(u32::from_le_bytes(word));
    }
    0
}
