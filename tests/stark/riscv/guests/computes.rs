// The host calls that compute, in Rust. Private input: a modulus, a number below it and a third, 32 bytes each, the lowest
// first, and then a message. Public output: the digest of the message by blocks, the same by schedules, the number to the
// power of 65537 modulo the modulus, and that plus the third number; and the last two modulo the modulus with 16 bytes of
// ones before it.
#![no_std]
#![no_main]

#[path = "../../../../distprove/stark/riscv/runtime/guest.rs"]
mod guest;

extern crate alloc;

use core::convert::TryInto;
use guest::{read_private, sha256_extend, write_word, Modulus, Sha256};

fn number(bytes: &[u8]) -> [u32; 8] {
    core::array::from_fn(|k| u32::from_le_bytes(bytes[4 * k..4 * k + 4].try_into().unwrap()))
}

/// x to the power of 65537, and that plus another number.
fn power<const N: usize>(mut modulus: Modulus<N>, x: [u32; N], added: [u32; N]) -> [[u32; N]; 2] {
    let mut power = x;
    for _ in 0..16 {
        power = modulus.multiply(&power, &power);
    }
    power = modulus.multiply(&power, &x);
    let one = core::array::from_fn(|k| (k == 0) as u32);
    [power, modulus.multiply_add(&power, &one, &added)]
}

/// A number of twelve words from its lowest eight.
fn larger(low: [u32; 8], high: u32) -> [u32; 12] {
    core::array::from_fn(|k| if k < 8 { low[k] } else { high })
}

#[no_mangle]
extern "C" fn main() -> u32 {
    let mut input = read_private();
    if input.len() < 96 {
        return 1;
    }
    let mut message = input.split_off(96);
    let bits: u64 = 8 * (message.len() as u64);
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend_from_slice(&bits.to_be_bytes());
    let (mut by_blocks, mut by_schedules) = (Sha256::new(), Sha256::new());
    for chunk in message.chunks(64) {
        let block: [u32; 16] = core::array::from_fn(|k| u32::from_le_bytes(chunk[4 * k..4 * k + 4].try_into().unwrap()));
        by_blocks.block(&block);
        let mut schedule: [u32; 64] = core::array::from_fn(|k| if k < 16 { block[k].swap_bytes() } else { 0 });
        sha256_extend(&mut schedule);
        by_schedules.compress(&schedule);
    }
    let (m, x, added) = (number(&input), number(&input[32..]), number(&input[64..]));
    let small = power(Modulus::new(m), x, added);
    let large = power(Modulus::new(larger(m, !0)), larger(x, 0), larger(added, 0));
    let hashes = by_blocks.state.iter().chain(&by_schedules.state);
    for word in hashes.chain(small.iter().flatten()).chain(large.iter().flatten()) {
        write_word(*word);
    }
    0
}
