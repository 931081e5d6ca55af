//! Proving keys in the format of FORMAT.md.

use std::{path::Path, sync::Arc};

use anyhow::{bail, ensure, Context, Result};
use openvm_stark_backend::{
    air_builders::symbolic::{
        symbolic_variable::{Entry, SymbolicVariable},
        SymbolicConstraintsDag, SymbolicExpressionDag, SymbolicExpressionNode as Node,
    },
    hasher::MerkleHasher,
    interaction::Interaction,
    keygen::types::{
        LinearConstraint, MultiStarkProvingKey, MultiStarkVerifyingKey0, StarkProvingKey, StarkVerifyingKey,
        StarkVerifyingParams, TraceWidth, VerifierSinglePreprocessedData,
    },
    p3_field::{PrimeCharacteristicRing, PrimeField32},
    prover::{stacked_pcs::stacked_commit, ColMajorMatrix},
    StarkProtocolConfig, SystemParams,
};
use openvm_stark_sdk::config::baby_bear_poseidon2::{BabyBearPoseidon2Config as Config, Digest, F};
use serde_json::{json, Value};

use crate::container::{digest_json, element, read_digest, ArrayReader, ArrayWriter, Object};

const MAGIC: &[u8; 8] = b"OVMKEY01";
/// `CODEC_VERSION` of openvm-stark-backend 2.0.1, which does not export it.
const CODEC_VERSION: u32 = 3;

pub type ProvingKey = MultiStarkProvingKey<Config>;

pub fn write_key(path: &Path, key: &ProvingKey) -> Result<()> {
    let mut arrays = ArrayWriter::default();
    let preprocessed = key.per_air.iter().map(preprocessed_trace).collect::<Vec<_>>();
    let airs = key
        .per_air
        .iter()
        .zip(&preprocessed)
        .map(|(air, trace)| air_json(air, trace.as_ref(), &mut arrays));
    let airs = airs.collect::<Vec<_>>();
    let header = json!({
        "format": "openvm-key",
        "version": 1,
        "codec_version": CODEC_VERSION,
        "params": key.params,
        "trace_height_constraints": key.trace_height_constraints,
        "max_constraint_degree": key.max_constraint_degree,
        "pre_hash": digest_json(&key.vk_pre_hash),
        "airs": airs,
    });
    arrays.write(path, MAGIC, &header)
}

/// Reads a key; refuses one whose hash or whose preprocessed commitments differ from its content.
pub fn read_key(path: &Path) -> Result<ProvingKey> {
    let mut file = ArrayReader::read(path, MAGIC)?;
    ensure!(
        file.header.take("format")? == "openvm-key" && file.header.number("version")? == 1,
        "another format"
    );
    ensure!(
        file.header.number("codec_version")? == CODEC_VERSION as usize,
        "another codec version"
    );
    let params: SystemParams = serde_json::from_value(file.header.take("params")?)?;
    let config = Config::default_from_params(params.clone());
    let constraints: Vec<LinearConstraint> = serde_json::from_value(file.header.take("trace_height_constraints")?)?;
    let max_constraint_degree = file.header.number("max_constraint_degree")?;
    let vk_pre_hash = read_digest(file.header.take("pre_hash")?)?;
    let airs = file.header.list("airs")?;
    let per_air = airs
        .into_iter()
        .map(|air| read_air(Object::new(air)?, &file, &config))
        .collect::<Result<Vec<_>>>()?;
    file.header.end()?;
    let key = ProvingKey {
        per_air,
        trace_height_constraints: constraints,
        max_constraint_degree,
        params,
        vk_pre_hash,
    };
    ensure!(
        max_constraint_degree == key.params.max_constraint_degree,
        "two constraint degrees"
    );
    ensure!(
        pre_hash(&config, &key) == vk_pre_hash,
        "the hash of the key differs from its content"
    );
    Ok(key)
}

/// The hash that their key generation computes: postcard's bytes of the verifying key, one in an element.
fn pre_hash(config: &Config, key: &ProvingKey) -> Digest {
    let verifying = MultiStarkVerifyingKey0::<Config> {
        params: key.params.clone(),
        per_air: key.per_air.iter().map(|air| air.vk.clone()).collect(),
        trace_height_constraints: key.trace_height_constraints.clone(),
    };
    let encoded = postcard::to_allocvec(&verifying).expect("a verifying key");
    let mut bytes = CODEC_VERSION.to_le_bytes().to_vec();
    bytes.extend((encoded.len() as u64).to_le_bytes());
    bytes.extend(encoded);
    config
        .hasher()
        .hash_slice(&bytes.into_iter().map(F::from_u8).collect::<Vec<_>>())
}

fn preprocessed_trace(air: &StarkProvingKey<Config>) -> Option<ColMajorMatrix<F>> {
    air.preprocessed_data.as_ref().map(|data| data.mat_view(0).to_matrix())
}

fn air_json<'a>(
    air: &StarkProvingKey<Config>,
    trace: Option<&'a ColMajorMatrix<F>>,
    arrays: &mut ArrayWriter<'a>,
) -> Value {
    let vk = &air.vk;
    let preprocessed = vk.preprocessed_data.as_ref().zip(trace).map(|(data, trace)| {
        json!({
            "commit": digest_json(&data.commit),
            "hypercube_dim": data.hypercube_dim,
            "stacking_width": data.stacking_width,
            "trace": arrays.add(trace),
        })
    });
    let dag = &vk.symbolic_constraints;
    let nodes = &dag.constraints.nodes;
    let interactions = dag.interactions.iter().map(|each| {
        json!({
            "bus": each.bus_index,
            "count": each.count,
            "weight": each.count_weight,
            "message": each.message,
        })
    });
    json!({
        "name": air.air_name,
        "is_required": vk.is_required,
        "num_public_values": vk.params.num_public_values,
        "need_rot": vk.params.need_rot,
        "max_constraint_degree": vk.max_constraint_degree,
        "width": vk.params.width,
        "preprocessed": preprocessed,
        "nodes": arrays.add_rows(nodes.iter().map(node_row)),
        "constraints": dag.constraints.constraint_idx,
        "interactions": interactions.collect::<Vec<_>>(),
        "unused_variables": arrays.add_rows(vk.unused_variables.iter().map(variable_row)),
    })
}

fn read_air(mut air: Object, file: &ArrayReader, config: &Config) -> Result<StarkProvingKey<Config>> {
    let air_name = air.take("name")?.as_str().context("name")?.to_owned();
    let width: TraceWidth = serde_json::from_value(air.take("width")?)?;
    let (verifier_data, prover_data) = match air.take("preprocessed")? {
        Value::Null => (None, None),
        value => {
            let mut value = Object::new(value)?;
            let params = config.params();
            let trace = file.matrix(value.take("trace")?)?;
            let traces = [&trace];
            let (commit, data) = stacked_commit(
                config.hasher(),
                params.l_skip,
                params.n_stack,
                params.log_blowup,
                params.k_whir(),
                &traces,
            )?;
            ensure!(
                read_digest(value.take("commit")?)? == commit,
                "{air_name}: another preprocessed commitment"
            );
            let hypercube_dim = value.take("hypercube_dim")?.as_i64().context("hypercube_dim")? as isize;
            let stacking_width = value.number("stacking_width")?;
            value.end()?;
            (
                Some(VerifierSinglePreprocessedData {
                    commit,
                    hypercube_dim,
                    stacking_width,
                }),
                Some(Arc::new(data)),
            )
        }
    };
    let params = StarkVerifyingParams {
        width,
        num_public_values: air.number("num_public_values")?,
        need_rot: air.take("need_rot")?.as_bool().context("need_rot")?,
    };
    let nodes = rows(file, air.take("nodes")?)?
        .into_iter()
        .enumerate()
        .map(|(index, row)| read_node(index, row));
    let nodes = nodes.collect::<Result<Vec<_>>>()?;
    let constraint_idx: Vec<usize> = serde_json::from_value(air.take("constraints")?)?;
    let interactions = air
        .list("interactions")?
        .into_iter()
        .map(read_interaction)
        .collect::<Result<Vec<_>>>()?;
    let used = interactions
        .iter()
        .flat_map(|each| each.message.iter().chain([&each.count]));
    ensure!(
        used.chain(&constraint_idx).all(|&index| index < nodes.len()),
        "{air_name}: no such node"
    );
    let unused = rows(file, air.take("unused_variables")?)?;
    let vk = StarkVerifyingKey {
        preprocessed_data: verifier_data,
        params,
        symbolic_constraints: SymbolicConstraintsDag {
            constraints: SymbolicExpressionDag { nodes, constraint_idx },
            interactions,
        },
        max_constraint_degree: u8::try_from(air.number("max_constraint_degree")?)?,
        is_required: air.take("is_required")?.as_bool().context("is_required")?,
        unused_variables: unused.into_iter().map(read_variable).collect::<Result<Vec<_>>>()?,
    };
    air.end()?;
    Ok(StarkProvingKey {
        air_name,
        vk,
        preprocessed_data: prover_data,
    })
}

fn read_interaction(value: Value) -> Result<Interaction<usize>> {
    let mut value = Object::new(value)?;
    let interaction = Interaction {
        message: serde_json::from_value(value.take("message")?)?,
        count: value.number("count")?,
        bus_index: u16::try_from(value.number("bus")?)?,
        count_weight: u32::try_from(value.number("weight")?)?,
    };
    value.end()?;
    Ok(interaction)
}

type Row = [u32; 4];

fn rows(file: &ArrayReader, place: Value) -> Result<Vec<Row>> {
    let ([_, width], items) = file.array(place)?;
    ensure!(width == 4, "rows of {width} items");
    Ok(items.chunks_exact(4).map(|row| row.try_into().unwrap()).collect())
}

fn item(value: usize) -> u32 {
    u32::try_from(value).expect("an index below 2^32")
}

fn variable_row(variable: &SymbolicVariable<F>) -> Row {
    let column = item(variable.index);
    match variable.entry {
        Entry::Preprocessed { offset } => [0, column, 0, item(offset)],
        Entry::Main { part_index, offset } => [1, column, item(part_index), item(offset)],
        Entry::Public => [2, column, 0, 0],
        Entry::Challenge => unreachable!("keys of this version have no challenges"),
    }
}

fn read_variable([kind, column, part, offset]: Row) -> Result<SymbolicVariable<F>> {
    let (part_index, offset) = (part as usize, offset as usize);
    let entry = match (kind, part, offset) {
        (0, 0, 0 | 1) => Entry::Preprocessed { offset },
        (1, _, 0 | 1) => Entry::Main { part_index, offset },
        (2, 0, 0) => Entry::Public,
        _ => bail!("no variable: {kind}, {column}, {part}, {offset}"),
    };
    Ok(SymbolicVariable::new(entry, column as usize))
}

fn node_row(node: &Node<F>) -> Row {
    match *node {
        Node::Variable(ref variable) => variable_row(variable),
        Node::IsFirstRow => [3, 0, 0, 0],
        Node::IsLastRow => [4, 0, 0, 0],
        Node::IsTransition => [5, 0, 0, 0],
        Node::Constant(value) => [6, value.as_canonical_u32(), 0, 0],
        Node::Add {
            left_idx,
            right_idx,
            degree_multiple,
        } => [7, left_idx, right_idx, degree_multiple].map(item),
        Node::Sub {
            left_idx,
            right_idx,
            degree_multiple,
        } => [8, left_idx, right_idx, degree_multiple].map(item),
        Node::Neg { idx, degree_multiple } => [9, idx, 0, degree_multiple].map(item),
        Node::Mul {
            left_idx,
            right_idx,
            degree_multiple,
        } => [10, left_idx, right_idx, degree_multiple].map(item),
    }
}

fn read_node(index: usize, row: Row) -> Result<Node<F>> {
    let [left_idx, right_idx, degree_multiple] = [row[1], row[2], row[3]].map(|value| value as usize);
    let operands = left_idx < index && right_idx < index;
    Ok(match (row[0], &row[1..]) {
        (0..=2, _) => Node::Variable(read_variable(row)?),
        (3, [0, 0, 0]) => Node::IsFirstRow,
        (4, [0, 0, 0]) => Node::IsLastRow,
        (5, [0, 0, 0]) => Node::IsTransition,
        (6, [_, 0, 0]) => Node::Constant(element(row[1])?),
        (7, _) if operands => Node::Add {
            left_idx,
            right_idx,
            degree_multiple,
        },
        (8, _) if operands => Node::Sub {
            left_idx,
            right_idx,
            degree_multiple,
        },
        (9, [_, 0, _]) if operands => Node::Neg {
            idx: left_idx,
            degree_multiple,
        },
        (10, _) if operands => Node::Mul {
            left_idx,
            right_idx,
            degree_multiple,
        },
        _ => bail!("no node: {row:?}"),
    })
}
