//! Values of their primitives, for tests of other implementations: JSON with canonical integers.

use anyhow::Result;
use openvm_judge::container::digest_json;
use openvm_stark_backend::{
    hasher::MerkleHasher,
    p3_field::{BasedVectorSpace, Field, PrimeCharacteristicRing, PrimeField32, TwoAdicField},
    p3_symmetric::Permutation,
    prover::{
        stacked_pcs::{stacked_commit, MerkleTree},
        ColMajorMatrix,
    },
    FiatShamirTranscript, StarkProtocolConfig,
};
use openvm_stark_sdk::config::baby_bear_poseidon2::{
    default_duplex_sponge, poseidon2_perm, BabyBearPoseidon2Config as Config, Digest, EF, F,
};
use p3_dft::{Radix2Bowers, TwoAdicSubgroupDft};
use serde_json::{json, Value};

use crate::sets;

fn base(values: &[F]) -> Value {
    json!(values.iter().map(F::as_canonical_u32).collect::<Vec<_>>())
}

fn extension(value: EF) -> Value {
    base(value.as_basis_coefficients_slice())
}

fn element(seed: u32) -> EF {
    EF::from_basis_coefficients_fn(|index| sets::elements(seed, index + 1)[index])
}

pub fn vectors() -> Result<Value> {
    let config = Config::default_from_params(sets::params("small")?);
    let hasher = config.hasher();
    let sponge = [1, 7, 8, 9, 16, 23].map(|count| {
        let input = sets::elements(count, count as usize);
        json!({"input": base(&input), "output": digest_json(&hasher.hash_slice(&input))})
    });
    let generators = (0..=F::TWO_ADICITY).map(|bits| F::two_adic_generator(bits).as_canonical_u32());
    Ok(json!({
        "permutation": permutations(),
        "sponge": sponge,
        "compression": compression(hasher),
        "transcript": transcript(),
        "extension": extensions(),
        "ntt": ntts(),
        "merkle": merkle(&config)?,
        "stacked": stacked(&config)?,
        "generators": generators.collect::<Vec<_>>(),
    }))
}

fn permutations() -> Value {
    let random = sets::elements(40, 16).try_into().unwrap();
    let states = [
        [F::ZERO; 16],
        std::array::from_fn(F::from_usize),
        [F::NEG_ONE; 16],
        random,
    ];
    json!(states.map(|state| json!({"input": base(&state), "output": base(&poseidon2_perm().permute(state))})))
}

fn compression(hasher: &<Config as StarkProtocolConfig>::Hasher) -> Value {
    let [left, right]: [Digest; 2] = [41, 42].map(|seed| sets::elements(seed, 8).try_into().unwrap());
    json!({
        "left": digest_json(&left),
        "right": digest_json(&right),
        "output": digest_json(&hasher.compress(left, right)),
    })
}

/// Observations and samples in turn: what was observed, then what was sampled. Then a witness of eight bits.
fn transcript() -> Value {
    let mut sponge = default_duplex_sponge();
    let mut steps = Vec::new();
    for (index, (observed, sampled)) in [(0, 3), (1, 1), (7, 9), (8, 17), (3, 8), (20, 2), (0, 8)]
        .into_iter()
        .enumerate()
    {
        let values = sets::elements(50 + index as u32, observed);
        values
            .iter()
            .for_each(|&value| FiatShamirTranscript::<Config>::observe(&mut sponge, value));
        let samples: Vec<F> = (0..sampled)
            .map(|_| FiatShamirTranscript::<Config>::sample(&mut sponge))
            .collect();
        steps.push(json!({"observe": base(&values), "sample": base(&samples)}));
    }
    let sampled = FiatShamirTranscript::<Config>::sample_ext(&mut sponge);
    let bits = FiatShamirTranscript::<Config>::sample_bits(&mut sponge, 10);
    let fits = |value: &u32| FiatShamirTranscript::<Config>::check_witness(&mut sponge.clone(), 8, F::new(*value));
    let witness = (0..F::ORDER_U32).find(fits).expect("a witness");
    json!({
        "steps": steps,
        "then_extension": extension(sampled),
        "then_10_bits": bits,
        "then_smallest_witness_of_8_bits": witness,
    })
}

fn extensions() -> Value {
    let pairs = [
        (element(60), element(61)),
        (element(62), EF::ONE),
        (EF::NEG_ONE, element(63)),
    ];
    json!(pairs.map(|(left, right)| json!({
        "left": extension(left),
        "right": extension(right),
        "sum": extension(left + right),
        "product": extension(left * right),
        "inverse_of_left": extension(left.inverse()),
        "left_to_2_40": extension(left.exp_power_of_2(40)),
    })))
}

/// Coefficients in natural order to values at the powers of the generator, in natural order.
fn ntts() -> Value {
    json!([0, 1, 3, 5].map(|log| {
        let coefficients = sets::elements(70 + log, 1 << log);
        json!({"coefficients": base(&coefficients), "values": base(&Radix2Bowers.dft(coefficients.clone()))})
    }))
}

/// The root over a matrix of 32 rows and 3 columns, with 4 rows in a query, and the layers of digests below it.
fn merkle(config: &Config) -> Result<Value> {
    let values = sets::elements(80, 96);
    let tree = MerkleTree::new(config.hasher(), ColMajorMatrix::new(values.clone(), 3), 4)?;
    let layers = tree
        .digest_layers()
        .iter()
        .map(|layer| layer.iter().map(digest_json).collect::<Vec<_>>());
    Ok(json!({
        "height": 32,
        "width": 3,
        "rows_per_query": 4,
        "columns": values.chunks(32).map(base).collect::<Vec<_>>(),
        "digest_layers": layers.collect::<Vec<_>>(),
        "root": digest_json(&tree.root()?),
    }))
}

/// The commitment to columns of two heights under the small parameters: stacked matrix, codeword and root.
fn stacked(config: &Config) -> Result<Value> {
    let params = config.params();
    let matrices = [
        ColMajorMatrix::new(sets::elements(90, 48), 3),
        ColMajorMatrix::new(sets::elements(91, 4), 2),
    ];
    let traces = [&matrices[0], &matrices[1]];
    let (l_skip, n_stack) = (params.l_skip, 3);
    let (commit, data) = stacked_commit(config.hasher(), l_skip, n_stack, params.log_blowup, 2, &traces)?;
    Ok(json!({
        "l_skip": l_skip,
        "n_stack": n_stack,
        "log_blowup": params.log_blowup,
        "k_whir": 2,
        "matrices": matrices.map(|each| each.columns().map(base).collect::<Vec<_>>()),
        "stacked_columns": data.matrix.columns().map(base).collect::<Vec<_>>(),
        "codeword_columns": data.tree.backing_matrix().columns().map(base).collect::<Vec<_>>(),
        "root": digest_json(&commit),
    }))
}
