//! SHA-256 and Keccak-256 of bytes, by the machine's host calls.

use crate::guest::{keccak_f, Sha256};

/// SHA-256 (FIPS 180-4) of bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut blocks = bytes.chunks_exact(64);
    for block in &mut blocks {
        hash.block(&words(block));
    }
    let rest = blocks.remainder();
    let mut last = [0u8; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let size = if rest.len() < 56 { 64 } else { 128 };
    last[size - 8..size].copy_from_slice(&(8 * bytes.len() as u64).to_be_bytes());
    for block in last[..size].chunks_exact(64) {
        hash.block(&words(block));
    }
    let mut digest = [0; 32];
    for (four, word) in digest.chunks_exact_mut(4).zip(hash.state) {
        four.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

/// The words of a block as they lie in memory.
fn words(block: &[u8]) -> [u32; 16] {
    core::array::from_fn(|i| u32::from_le_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]]))
}

/// Bytes of a block of Keccak-256.
const RATE: usize = 136;

/// Keccak-256 (Ethereum's: the padding of Keccak, not of SHA-3) of bytes.
pub fn keccak256(bytes: &[u8]) -> [u8; 32] {
    let mut state = [0; 25];
    let mut blocks = bytes.chunks_exact(RATE);
    for block in &mut blocks {
        absorb(&mut state, block);
    }
    let rest = blocks.remainder();
    let mut last = [0; RATE];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] ^= 0x01;
    last[RATE - 1] ^= 0x80;
    absorb(&mut state, &last);
    let mut digest = [0; 32];
    for (eight, lane) in digest.chunks_exact_mut(8).zip(state) {
        eight.copy_from_slice(&lane.to_le_bytes());
    }
    digest
}

fn absorb(state: &mut [u64; 25], block: &[u8]) {
    for (lane, eight) in state.iter_mut().zip(block.chunks_exact(8)) {
        let low = u32::from_le_bytes([eight[0], eight[1], eight[2], eight[3]]);
        let high = u32::from_le_bytes([eight[4], eight[5], eight[6], eight[7]]);
        *lane ^= u64::from(high) << 32 | u64::from(low);
    }
    keccak_f(state);
}
