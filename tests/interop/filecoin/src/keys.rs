//! bellperson's parameters for a circuit, and its verdict on a proof.

use std::{
    fs::{read_to_string, File},
    io::{BufWriter, Write},
    path::Path,
};

use bellperson::{
    groth16::{generate_random_parameters, prepare_verifying_key, verify_proof, Proof, VerifyingKey},
    Circuit,
};
use blstrs::{Bls12, Scalar as Fr};
use ff::PrimeField;
use rand_core::OsRng;

use crate::circuits::Use;

/// Writes parameters to this path, and the verification key beside them as `.vk`.
pub struct Generate<'a>(pub &'a Path);

impl Use for Generate<'_> {
    type Made = ();
    fn of(self, circuit: impl Circuit<Fr> + Send) {
        let made = generate_random_parameters::<Bls12, _, _>(circuit, &mut OsRng).expect("parameters");
        let create = |path: &Path| BufWriter::new(File::create(path).expect("a file to write"));
        let mut out = create(self.0);
        made.write(&mut out)
            .and_then(|()| out.flush())
            .expect("parameters written");
        let mut out = create(&self.0.with_extension("vk"));
        made.vk.write(&mut out).and_then(|()| out.flush()).expect("key written");
    }
}

/// Whether a proof of 192 bytes verifies for the public values in a JSON list of decimal strings.
pub fn verifies(vk: &Path, proof: &Path, public: &Path) -> bool {
    let open = |path: &Path| File::open(path).expect("a file to read");
    let vk = VerifyingKey::<Bls12>::read(open(vk)).expect("a verification key");
    let proof = Proof::<Bls12>::read(open(proof)).expect("a proof");
    let public = read_to_string(public).expect("public values");
    let values: Vec<Fr> = public
        .split('"')
        .skip(1)
        .step_by(2)
        .map(|value| Fr::from_str_vartime(value).expect("a field element"))
        .collect();
    verify_proof(&prepare_verifying_key(&vk), &proof, &values).expect("as many values as the key has")
}
