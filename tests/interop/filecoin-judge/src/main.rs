//! Filecoin's own software as a judge: it seals sectors of 2 KiB, writes their vanilla proofs, prints what follows from
//! public facts, makes parameters, and verifies proofs.
//!
//!     seal DIR PROOF_TYPE [zero]           seal a sector of random data, or of zeros: DIR/c1.json, c1-api.json,
//!                                          c1-lotus.json, facts.json
//!     parents PROOF_TYPE NODE...           the 14 parents of nodes
//!     inputs FACTS                         the public inputs of a seal's partitions
//!     winning DIR, window DIR DIR...       vanilla proofs of sectors that were sealed: winning.json, window.json in the
//!                                          first folder, with their facts; the same in base64 of bincode, -raw.json
//!     update DIR                           an update of a sector that was sealed: update.json and the like
//!     params porep|winning|window|update   parameters of the circuits of 2 KiB, in FIL_PROOFS_PARAMETER_CACHE
//!     vk porep|winning|window|update       where the verifying key of that circuit is looked for
//!     params srs PROOFS                    aggregation keys for so many proofs, from fresh secrets, at the same place
//!     aggregate OUT (FACTS PROOF)...       the aggregate of sectors' proofs
//!     verify-aggregate PROOF FACTS...      the verdict on an aggregate of sectors, as that of `verify`
//!     verify FACTS PROOF                   the verdict on a proof's bytes: exit code 0 and `true`, or 1 and `false`
//!
//! Facts are a JSON object with a `kind`; bytes are in hexadecimal digits.

use std::collections::BTreeMap;
use std::fs::{create_dir_all, read, write, File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context, Result};
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use bellperson::groth16::aggregate::setup_fake_srs;
use blstrs::{Bls12, Scalar as Fr};
use ff::PrimeField;
use filecoin_hashers::poseidon::PoseidonHasher;
use filecoin_proofs::parameters::{public_params, window_post_public_params, winning_post_public_params};
use filecoin_proofs::{DefaultPieceHasher, PartitionProof, SectorShape2KiB};
use filecoin_proofs_api::seal::{
    aggregate_seal_commit_proofs, generate_synth_proofs, get_seal_inputs, seal_commit_phase1, seal_pre_commit_phase1,
    seal_pre_commit_phase2, verify_aggregate_seal_commit_proofs, verify_seal, write_and_preprocess,
    SealCommitPhase2Output,
};
use filecoin_proofs_api::{
    post, update, ApiFeature, FallbackPoStSectorProof, PrivateReplicaInfo, PublicReplicaInfo,
    RegisteredAggregationProof, RegisteredPoStProof, RegisteredSealProof, RegisteredUpdateProof, SectorId,
    UnpaddedBytesAmount,
};
use rand::{rngs::OsRng, Rng, SeedableRng};
use rand_xorshift::XorShiftRng;
use serde::{de::DeserializeOwned, Serialize};
use serde_json::{from_slice, from_value, json, to_value, Value};
use storage_proofs_core::compound_proof::CompoundProof;
use storage_proofs_core::drgraph::Graph;
use storage_proofs_core::parameter_cache::{parameter_cache_verifying_key_path, CacheableParameters};
use storage_proofs_porep::stacked::{StackedBucketGraph, StackedCompound};
use storage_proofs_post::fallback::FallbackPoStCompound;
use storage_proofs_update::{EmptySectorUpdateCircuit, EmptySectorUpdateCompound, PublicParams as UpdateParams};

const BYTES: u64 = 2032;
/// What a sector of 2 KiB holds.
const WINNING: RegisteredPoStProof = RegisteredPoStProof::StackedDrgWinning2KiBV1;
const WINDOW: RegisteredPoStProof = RegisteredPoStProof::StackedDrgWindow2KiBV1_2;
const UPDATE: RegisteredUpdateProof = RegisteredUpdateProof::StackedDrg2KiBV1;
type Bytes32 = [u8; 32];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["seal", dir, kind] => seal(Path::new(dir), kind, false),
        ["seal", dir, kind, "zero"] => seal(Path::new(dir), kind, true),
        ["parents", kind, nodes @ ..] => parents(kind, nodes),
        ["inputs", facts] => inputs(&facts_in(facts)?),
        ["winning", dir] => winning(Path::new(dir)),
        ["window", dirs @ ..] => window(dirs),
        ["update", dir] => updated(Path::new(dir)),
        ["params", "srs", proofs] => aggregation_keys(proofs.parse()?),
        ["params", what] => params(what),
        ["aggregate", out, of @ ..] => aggregate(Path::new(out), of),
        ["verify-aggregate", proof, of @ ..] => judged(verify_aggregate(read(proof)?, of)),
        ["vk", what] => {
            println!("{}", verifying_key_path(what)?.display());
            Ok(())
        }
        ["verify", facts, proof] => judged(verify(&facts_in(facts)?, &read(proof)?)),
        _ => bail!("unknown command; src/main.rs lists them"),
    }
}

/// Print the verdict, and end with it as the exit code.
fn judged(found: Result<bool>) -> Result<()> {
    let holds = found.unwrap_or_else(|error| {
        eprintln!("{error:#}");
        false
    });
    println!("{holds}");
    std::process::exit(if holds { 0 } else { 1 })
}

fn seal_proof(name: &str) -> Result<RegisteredSealProof> {
    from_value(Value::String(name.into())).context("a registered seal proof")
}

fn facts_in(path: &str) -> Result<Value> {
    Ok(from_slice(&read(path)?)?)
}

fn octets(facts: &Value, name: &str) -> Result<Bytes32> {
    let text = facts[name].as_str().with_context(|| format!("no {name}"))?;
    hex::decode(text)?
        .try_into()
        .ok()
        .with_context(|| format!("{name} has 32 bytes"))
}

fn sector_of(facts: &Value) -> Result<SectorId> {
    Ok(facts["sector"].as_u64().context("no sector")?.into())
}

/// The id of miner f01000: the payload of its address, an integer of variable length.
fn prover_id() -> Bytes32 {
    let mut id = [0; 32];
    id[..2].copy_from_slice(&[0xe8, 0x07]);
    id
}

fn put(path: PathBuf, value: &Value) -> Result<()> {
    Ok(write(path, serde_json::to_vec(value)?)?)
}

fn data(dir: &Path, name: &str, zero: bool) -> Result<(PathBuf, Vec<filecoin_proofs_api::PieceInfo>)> {
    let mut content = vec![0u8; BYTES as usize];
    if !zero {
        OsRng.fill(content.as_mut_slice());
    }
    let path = dir.join(name);
    let staged = File::create(&path)?;
    let proof = RegisteredSealProof::StackedDrg2KiBV1_1;
    let (piece, _) = write_and_preprocess(proof, content.as_slice(), staged, UnpaddedBytesAmount(BYTES))?;
    Ok((path, vec![piece]))
}

fn seal(dir: &Path, kind: &str, zero: bool) -> Result<()> {
    let (cache, sealed) = (dir.join("cache"), dir.join("sealed"));
    create_dir_all(&cache)?;
    let proof = seal_proof(kind)?;
    let (staged, pieces) = data(dir, "staged", zero)?;
    File::create(&sealed)?;
    let mut random = XorShiftRng::from_rng(OsRng)?;
    let (ticket, seed): (Bytes32, Bytes32) = (random.gen(), random.gen());
    let number: u64 = random.gen_range(1..1 << 32);
    let (prover, sector) = (prover_id(), SectorId::from(number));

    let first = seal_pre_commit_phase1(proof, &cache, &staged, &sealed, prover, sector, ticket, &pieces)?;
    let second = seal_pre_commit_phase2(first, &cache, &sealed)?;
    if proof.feature_enabled(ApiFeature::SyntheticPoRep) {
        generate_synth_proofs(&cache, &sealed, prover, sector, ticket, second.clone(), &pieces)?;
    }
    let c1 = seal_commit_phase1(&cache, &sealed, prover, sector, ticket, seed, second, &pieces)?;

    let api = to_value(&c1)?;
    let mut plain = api.clone();
    let fields = plain.as_object_mut().context("an object")?;
    fields.remove("registered_proof");
    let tagged = fields["vanilla_proofs"]["StackedDrg2KiBV1"].take();
    fields["vanilla_proofs"] = tagged;
    let encoded = STANDARD.encode(serde_json::to_vec(&api)?);
    put(dir.join("c1.json"), &plain)?;
    put(dir.join("c1-api.json"), &api)?;
    put(
        dir.join("c1-lotus.json"),
        &json!({"SectorNum": number, "Phase1Out": encoded, "SectorSize": 2048}),
    )?;
    let facts = json!({
        "kind": "porep",
        "proof_type": kind,
        "porep_id": hex::encode(proof.as_v1_config().porep_id),
        "prover_id": hex::encode(prover),
        "sector": number,
        "ticket": hex::encode(ticket),
        "seed": hex::encode(seed),
        "comm_r": hex::encode(c1.comm_r),
        "comm_d": hex::encode(c1.comm_d),
    });
    put(dir.join("facts.json"), &facts)
}

fn parents(kind: &str, nodes: &[&str]) -> Result<()> {
    let config = seal_proof(kind)?.as_v1_config();
    let size = u64::from(config.sector_size) as usize / 32;
    let graph = StackedBucketGraph::<PoseidonHasher>::new_stacked(size, 6, 8, config.porep_id, config.api_version)?;
    let mut found = BTreeMap::new();
    for node in nodes {
        let number: usize = node.parse()?;
        let mut own = [0u32; 14];
        graph.parents(number, &mut own)?;
        found.insert(number, own.to_vec());
    }
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

fn inputs(facts: &Value) -> Result<()> {
    let listed: Vec<Vec<String>> = inputs_of(facts)?
        .iter()
        .map(|own| own.iter().map(|value| hex::encode(value.to_repr())).collect())
        .collect();
    println!("{}", serde_json::to_string(&listed)?);
    Ok(())
}

fn inputs_of(facts: &Value) -> Result<Vec<Vec<Fr>>> {
    get_seal_inputs(
        seal_proof(facts["proof_type"].as_str().context("no proof_type")?)?,
        octets(facts, "comm_r")?,
        octets(facts, "comm_d")?,
        octets(facts, "prover_id")?,
        sector_of(facts)?,
        octets(facts, "ticket")?,
        octets(facts, "seed")?,
    )
}

/// A sector that was sealed, and its commitment.
fn replica(dir: &Path, kind: RegisteredPoStProof) -> Result<(SectorId, Bytes32, PrivateReplicaInfo)> {
    let facts = facts_in(dir.join("facts.json").to_str().context("a path")?)?;
    let comm_r = octets(&facts, "comm_r")?;
    Ok((
        sector_of(&facts)?,
        comm_r,
        PrivateReplicaInfo::new(kind, comm_r, dir.join("cache"), dir.join("sealed")),
    ))
}

fn post_facts(
    kind: &str,
    proof: RegisteredPoStProof,
    randomness: Bytes32,
    sectors: &[(SectorId, Bytes32)],
) -> Result<Value> {
    let listed: Vec<Value> = sectors
        .iter()
        .map(|(id, comm_r)| json!({"sector": u64::from(*id), "comm_r": hex::encode(comm_r)}))
        .collect();
    Ok(json!({
        "kind": kind,
        "proof_type": to_value(proof)?,
        "prover_id": hex::encode(prover_id()),
        "randomness": hex::encode(randomness),
        "sectors": listed,
    }))
}

fn randomness() -> Bytes32 {
    let mut drawn: Bytes32 = OsRng.gen();
    drawn[31] &= 0x3f;
    drawn
}

/// Write vanilla proofs, as they come from the API and decoded, and their facts.
fn put_vanilla<T: Serialize + DeserializeOwned>(
    dir: &Path,
    name: &str,
    proofs: &[Vec<u8>],
    facts: &Value,
) -> Result<()> {
    let decoded = proofs
        .iter()
        .map(|own| Ok(to_value(bincode::deserialize::<T>(own)?)?))
        .collect::<Result<Vec<_>>>()?;
    put(dir.join(format!("{name}.json")), &Value::Array(decoded))?;
    let raw: Vec<String> = proofs.iter().map(|own| STANDARD.encode(own)).collect();
    put(dir.join(format!("{name}-raw.json")), &to_value(raw)?)?;
    put(dir.join(format!("{name}-facts.json")), facts)
}

fn winning(dir: &Path) -> Result<()> {
    let (sector, comm_r, own) = replica(dir, WINNING)?;
    let drawn = randomness();
    let nodes = post::generate_fallback_sector_challenges(WINNING, &drawn, &[sector], prover_id())?;
    let made = post::generate_single_vanilla_proof(WINNING, sector, &own, &nodes[&sector])?;
    let facts = post_facts("winning-post", WINNING, drawn, &[(sector, comm_r)])?;
    put_vanilla::<FallbackPoStSectorProof<Tree>>(dir, "winning", &[made], &facts)
}

fn window(dirs: &[&str]) -> Result<()> {
    let drawn = randomness();
    let mut replicas = dirs
        .iter()
        .map(|dir| replica(Path::new(dir), WINDOW))
        .collect::<Result<Vec<_>>>()?;
    replicas.sort_by_key(|(id, _, _)| u64::from(*id));
    let ids: Vec<SectorId> = replicas.iter().map(|(id, _, _)| *id).collect();
    let nodes = post::generate_fallback_sector_challenges(WINDOW, &drawn, &ids, prover_id())?;
    let made = replicas
        .iter()
        .map(|(id, _, own)| post::generate_single_vanilla_proof(WINDOW, *id, own, &nodes[id]))
        .collect::<Result<Vec<_>>>()?;
    let sectors: Vec<_> = replicas.iter().map(|(id, comm_r, _)| (*id, *comm_r)).collect();
    let facts = post_facts("window-post", WINDOW, drawn, &sectors)?;
    let first = Path::new(dirs.first().context("no folder")?);
    put_vanilla::<FallbackPoStSectorProof<Tree>>(first, "window", &made, &facts)
}

fn updated(dir: &Path) -> Result<()> {
    let facts = facts_in(dir.join("facts.json").to_str().context("a path")?)?;
    let (cache, sealed) = (dir.join("cache"), dir.join("sealed"));
    let (new_cache, new_sealed) = (dir.join("new-cache"), dir.join("new-sealed"));
    create_dir_all(&new_cache)?;
    OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&new_sealed)?
        .set_len(2048)?;
    let (staged, pieces) = data(dir, "new-staged", false)?;
    let made =
        update::empty_sector_update_encode_into(UPDATE, &new_sealed, &new_cache, &sealed, &cache, &staged, &pieces)?;
    let old = octets(&facts, "comm_r")?;
    let proofs = update::generate_partition_proofs(
        UPDATE,
        old,
        made.comm_r_new,
        made.comm_d_new,
        &sealed,
        &cache,
        &new_sealed,
        &new_cache,
    )?;
    let facts = json!({
        "kind": "snap-deals",
        "proof_type": to_value(UPDATE)?,
        "comm_r_old": hex::encode(old),
        "comm_r_new": hex::encode(made.comm_r_new),
        "comm_d_new": hex::encode(made.comm_d_new),
    });
    let raw: Vec<Vec<u8>> = proofs.into_iter().map(|own| own.0).collect();
    put_vanilla::<PartitionProof<Tree>>(dir, "update", &raw, &facts)
}

type Tree = SectorShape2KiB;
type Seals = StackedCompound<Tree, DefaultPieceHasher>;
type Posts = FallbackPoStCompound<Tree>;
type Updates = EmptySectorUpdateCompound<Tree>;

fn params(what: &str) -> Result<()> {
    let random = &mut OsRng;
    match what {
        "porep" => {
            let of = public_params::<Tree>(&RegisteredSealProof::StackedDrg2KiBV1_1.as_v1_config())?;
            Seals::groth_params(Some(random), &of)?;
            Seals::verifying_key(Some(random), &of)?;
        }
        "winning" | "window" => {
            let of = post_params(what)?;
            Posts::groth_params(Some(random), &of)?;
            Posts::verifying_key(Some(random), &of)?;
        }
        "update" => {
            let of = UpdateParams::from_sector_size(2048);
            Updates::groth_params(Some(random), &of)?;
            Updates::verifying_key(Some(random), &of)?;
        }
        _ => bail!("parameters of porep, winning, window or update"),
    }
    Ok(())
}

fn post_params(what: &str) -> Result<storage_proofs_post::fallback::PublicParams> {
    match what {
        "winning" => winning_post_public_params::<Tree>(&WINNING.as_v1_config()),
        _ => window_post_public_params::<Tree>(&WINDOW.as_v1_config()),
    }
}

fn verifying_key_path(what: &str) -> Result<PathBuf> {
    let name = match what {
        "porep" => RegisteredSealProof::StackedDrg2KiBV1_1.circuit_identifier()?,
        "winning" => WINNING.circuit_identifier()?,
        "window" => WINDOW.circuit_identifier()?,
        "update" => <Updates as CacheableParameters<EmptySectorUpdateCircuit<Tree>, _>>::cache_identifier(
            &UpdateParams::from_sector_size(2048),
        ),
        _ => bail!("the key of porep, winning, window or update"),
    };
    Ok(parameter_cache_verifying_key_path(&name))
}

fn verify(facts: &Value, proof: &[u8]) -> Result<bool> {
    let kind = facts["kind"].as_str().context("no kind")?;
    if kind == "porep" {
        return verify_seal(
            seal_proof(facts["proof_type"].as_str().context("no proof_type")?)?,
            octets(facts, "comm_r")?,
            octets(facts, "comm_d")?,
            octets(facts, "prover_id")?,
            sector_of(facts)?,
            octets(facts, "ticket")?,
            octets(facts, "seed")?,
            proof,
        );
    }
    if kind == "snap-deals" {
        let (old, new) = (octets(facts, "comm_r_old")?, octets(facts, "comm_r_new")?);
        return update::verify_empty_sector_update_proof(UPDATE, proof, old, new, octets(facts, "comm_d_new")?);
    }
    let registered = if kind == "winning-post" { WINNING } else { WINDOW };
    ensure!(facts["proof_type"] == to_value(registered)?, "of another type of proof");
    let mut replicas = BTreeMap::new();
    for sector in facts["sectors"].as_array().context("no sectors")? {
        replicas.insert(
            sector_of(sector)?,
            PublicReplicaInfo::new(registered, octets(sector, "comm_r")?),
        );
    }
    let (drawn, prover) = (octets(facts, "randomness")?, octets(facts, "prover_id")?);
    match kind {
        "winning-post" => post::verify_winning_post(&drawn, proof, &replicas, prover),
        "window-post" => post::verify_window_post(&drawn, &[(registered, proof)], &replicas, prover),
        _ => bail!("an unknown kind of facts"),
    }
}

fn aggregation_keys(proofs: usize) -> Result<()> {
    let folder = PathBuf::from(std::env::var("FIL_PROOFS_PARAMETER_CACHE")?);
    create_dir_all(&folder)?;
    let mut out = File::create(folder.join("v28-fil-inner-product-v1.srs"))?;
    Ok(setup_fake_srs::<Bls12, _>(&mut OsRng, proofs).write(&mut out)?)
}

/// Type, comm_r and seed of sectors, in order.
fn sectors_of(of: &[Value]) -> Result<(RegisteredSealProof, Vec<Bytes32>, Vec<Bytes32>)> {
    let kind = of.first().context("no sector")?["proof_type"].as_str();
    Ok((
        seal_proof(kind.context("no proof_type")?)?,
        of.iter().map(|facts| octets(facts, "comm_r")).collect::<Result<_>>()?,
        of.iter().map(|facts| octets(facts, "seed")).collect::<Result<_>>()?,
    ))
}

fn aggregate(out: &Path, of: &[&str]) -> Result<()> {
    let facts = of
        .iter()
        .step_by(2)
        .map(|path| facts_in(path))
        .collect::<Result<Vec<_>>>()?;
    let (proof, comm_rs, seeds) = sectors_of(&facts)?;
    let outputs = of
        .iter()
        .skip(1)
        .step_by(2)
        .map(|path| Ok(SealCommitPhase2Output { proof: read(path)? }))
        .collect::<Result<Vec<_>>>()?;
    let version = RegisteredAggregationProof::SnarkPackV2;
    Ok(write(
        out,
        aggregate_seal_commit_proofs(proof, version, &comm_rs, &seeds, &outputs)?,
    )?)
}

fn verify_aggregate(aggregate: Vec<u8>, of: &[&str]) -> Result<bool> {
    let facts = of.iter().map(|path| facts_in(path)).collect::<Result<Vec<_>>>()?;
    let (proof, comm_rs, seeds) = sectors_of(&facts)?;
    let mut inputs = vec![];
    for own in &facts {
        inputs.extend(inputs_of(own)?);
    }
    let version = RegisteredAggregationProof::SnarkPackV2;
    verify_aggregate_seal_commit_proofs(proof, version, aggregate, &comm_rs, &seeds, inputs)
}
