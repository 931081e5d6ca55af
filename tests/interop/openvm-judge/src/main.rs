//! Makes keys, traces, proofs and vectors with OpenVM's own software on the CPU, and judges proofs with its verifier.

mod airs;
mod random;
mod sets;
mod vectors;

use std::{fs, panic::catch_unwind, path::Path, process::ExitCode};

use anyhow::{anyhow, ensure, Context, Result};
use openvm_judge::{
    key::{read_key, write_key, ProvingKey},
    traces::{proving_context, read_traces, write_traces},
    transcript::Engine,
};
use openvm_stark_backend::{
    codec::{Decode, Encode},
    keygen::MultiStarkKeygenBuilder,
    p3_field::PrimeField32,
    proof::Proof,
    prover::{CpuColMajorBackend, DeviceDataTransporter, ProvingContext},
    verifier::verify,
    StarkEngine,
};
use openvm_stark_sdk::config::baby_bear_poseidon2::{
    default_duplex_sponge, default_duplex_sponge_recorder, BabyBearPoseidon2Config as Config, DuplexSpongeRecorder, F,
};
use serde_json::json;

const USAGE: &str = "openvm-judge COMMAND
  list                          the names of the sets, one a line
  export NAME FOLDER [PARAMS]   key.bin, traces.bin and proof.bin of a set, or of random-SEED;
                                PARAMS: small (default), skip-4, random-SEED, or with security: app, app-LOG
  prove KEY TRACES PROOF        a proof of their prover for a key and traces in files
  verify KEY PROOF              accepted, or refused with the reason and status 1
  transcript KEY PROOF          what their verifier observes (o) and samples (s), one JSON line each
  vectors                       values of their primitives, as JSON";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(Verdict::Done) => ExitCode::SUCCESS,
        Ok(Verdict::Refused(reason)) => {
            println!("refused: {reason}");
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

enum Verdict {
    Done,
    Refused(String),
}

fn run(arguments: &[&str]) -> Result<Verdict> {
    match arguments {
        ["list"] => sets::NAMES.iter().for_each(|name| println!("{name}")),
        ["export", name, folder] => export(name, Path::new(folder), "small")?,
        ["export", name, folder, params] => export(name, Path::new(folder), params)?,
        ["prove", key, traces, proof] => prove_files(Path::new(key), Path::new(traces), Path::new(proof))?,
        ["verify", key, proof] => return verify_file(Path::new(key), Path::new(proof)),
        ["transcript", key, proof] => print_transcript(Path::new(key), Path::new(proof))?,
        ["vectors"] => println!("{}", serde_json::to_string(&vectors::vectors()?)?),
        _ => return Err(anyhow!(USAGE)),
    }
    Ok(Verdict::Done)
}

fn export(name: &str, folder: &Path, params: &str) -> Result<()> {
    let params = sets::params(params)?;
    let set = sets::set(name, &params)?;
    let config = Config::default_from_params(params);
    let mut builder = MultiStarkKeygenBuilder::new(config.clone());
    for (air, required) in set.airs {
        if required {
            builder.add_required_air(air);
        } else {
            builder.add_air(air);
        }
    }
    let key = builder.generate_pk()?;
    let context = proving_context(&config, &set.traces)?;
    fs::create_dir_all(folder)?;
    write_key(&folder.join("key.bin"), &key)?;
    write_traces(&folder.join("traces.bin"), &context)?;
    fs::write(folder.join("proof.bin"), prove(&key, &context)?.encode_to_vec()?)?;
    Ok(())
}

/// Proves, and has their verifier accept the proof.
fn prove(key: &ProvingKey, context: &ProvingContext<CpuColMajorBackend<Config>>) -> Result<Proof<Config>> {
    let engine = Engine::new(key.params.clone());
    let device = engine.device();
    let device_key = device.transport_pk_to_device(key);
    let proof = engine.prove(&device_key, device.transport_proving_ctx_to_device(context))?;
    engine
        .verify(&key.get_vk(), &proof)
        .map_err(|error| anyhow!("their verifier refuses their proof: {error}"))?;
    Ok(proof)
}

fn prove_files(key: &Path, traces: &Path, out: &Path) -> Result<()> {
    let key = read_key(key)?;
    let context = read_traces(traces, &Config::default_from_params(key.params.clone()))?;
    let widths = context.per_trace.iter().all(|(air, _)| *air < key.per_air.len());
    ensure!(widths, "traces of an AIR that the key has not");
    fs::write(out, prove(&key, &context)?.encode_to_vec()?)?;
    Ok(())
}

fn verify_file(key: &Path, proof: &Path) -> Result<Verdict> {
    let key = read_key(key)?;
    let bytes = fs::read(proof).with_context(|| format!("cannot read {}", proof.display()))?;
    let proof = match Proof::<Config>::decode_from_bytes(&bytes) {
        Ok(proof) => proof,
        Err(error) => return Ok(Verdict::Refused(format!("no proof: {error}"))),
    };
    if proof.encode_to_vec()? != bytes {
        return Ok(Verdict::Refused("no canonical encoding".to_owned()));
    }
    let config = Config::default_from_params(key.params.clone());
    let verdict = catch_unwind(|| verify(&config, &key.get_vk(), &proof, &mut default_duplex_sponge()));
    Ok(match verdict {
        Ok(Ok(())) => {
            println!("accepted");
            Verdict::Done
        }
        Ok(Err(error)) => Verdict::Refused(error.to_string()),
        Err(_) => Verdict::Refused("their verifier panics".to_owned()),
    })
}

fn print_transcript(key: &Path, proof: &Path) -> Result<()> {
    let key = read_key(key)?;
    let proof = Proof::<Config>::decode_from_bytes(&fs::read(proof)?)?;
    let mut recorder: DuplexSpongeRecorder = default_duplex_sponge_recorder();
    let config = Config::default_from_params(key.params.clone());
    let verdict = verify(&config, &key.get_vk(), &proof, &mut recorder);
    for (value, sampled) in recorder.log.values().iter().zip(recorder.log.samples()) {
        println!(
            "{}",
            json!([if *sampled { "s" } else { "o" }, F::as_canonical_u32(value)])
        );
    }
    println!(
        "{}",
        json!([
            "end",
            verdict.map_or_else(|error| error.to_string(), |()| "accepted".to_owned())
        ])
    );
    Ok(())
}
