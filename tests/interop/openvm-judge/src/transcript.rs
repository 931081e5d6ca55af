//! Their transcript, with the smallest witness of each proof of work.

use openvm_stark_backend::{
    p3_field::{PrimeCharacteristicRing, PrimeField32},
    p3_maybe_rayon::prelude::*,
    FiatShamirTranscript,
};
use openvm_stark_sdk::{
    config::baby_bear_poseidon2::{
        BabyBearPoseidon2Config as Config, BabyBearPoseidon2CpuEngine, Digest, DuplexSponge, F,
    },
    p3_baby_bear::Poseidon2BabyBear,
};

/// Their CPU prover, with that transcript.
pub type Engine = BabyBearPoseidon2CpuEngine<Transcript>;

/// A duplex sponge whose proofs do not depend on the number of threads.
///
/// Their own `grind` takes any witness that a thread finds; with one thread it takes the smallest, as this one does.
#[derive(Clone)]
pub struct Transcript(DuplexSponge);

impl From<Poseidon2BabyBear<16>> for Transcript {
    fn from(permutation: Poseidon2BabyBear<16>) -> Self {
        Self(DuplexSponge::from(permutation))
    }
}

impl FiatShamirTranscript<Config> for Transcript {
    fn observe(&mut self, value: F) {
        self.0.absorb(value);
    }

    fn sample(&mut self) -> F {
        self.0.squeeze()
    }

    fn observe_commit(&mut self, digest: Digest) {
        digest.into_iter().for_each(|value| self.0.absorb(value));
    }

    fn grind(&mut self, bits: usize) -> F {
        if bits == 0 {
            return F::ZERO;
        }
        let fits = |witness: &F| self.clone().check_witness(bits, *witness);
        let witness = (0..F::ORDER_U32)
            .into_par_iter()
            .map(F::new)
            .find_first(fits)
            .expect("a witness");
        assert!(self.check_witness(bits, witness));
        witness
    }
}
