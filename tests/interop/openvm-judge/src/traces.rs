//! The inputs of a proof, in the format of FORMAT.md.

use std::{path::Path, sync::Arc};

use anyhow::{ensure, Context, Result};
use openvm_stark_backend::{
    p3_field::PrimeField32,
    prover::{
        stacked_pcs::stacked_commit, AirProvingContext, ColMajorMatrix, CommittedTraceData, CpuColMajorBackend,
        MatrixDimensions, ProverBackend, ProvingContext,
    },
    StarkProtocolConfig,
};
use openvm_stark_sdk::config::baby_bear_poseidon2::{BabyBearPoseidon2Config as Config, Digest, F};
use serde_json::{json, Value};

use crate::container::{digest_json, element, read_digest, Array, ArrayReader, ArrayWriter, Object};

const MAGIC: &[u8; 8] = b"OVMTRC01";

/// The traces of one present AIR.
#[derive(Clone)]
pub struct Trace {
    pub air: usize,
    pub common_main: ColMajorMatrix<F>,
    pub cached_mains: Vec<ColMajorMatrix<F>>,
    pub public_values: Vec<F>,
}

type HostContext = ProvingContext<CpuColMajorBackend<Config>>;

/// What their prover starts from: cached matrices are committed one by one.
pub fn proving_context(config: &Config, traces: &[Trace]) -> Result<HostContext> {
    let per_trace = traces.iter().map(|trace| {
        let cached = trace.cached_mains.iter().map(|matrix| commit_cached(config, matrix));
        let cached_mains = cached.collect::<Result<Vec<_>>>()?;
        let context = AirProvingContext::new(cached_mains, trace.common_main.clone(), trace.public_values.clone());
        Ok((trace.air, context))
    });
    Ok(ProvingContext::new(per_trace.collect::<Result<Vec<_>>>()?))
}

fn commit_cached(
    config: &Config,
    matrix: &ColMajorMatrix<F>,
) -> Result<CommittedTraceData<CpuColMajorBackend<Config>>> {
    let params = config.params();
    let (commitment, data) = stacked_commit(
        config.hasher(),
        params.l_skip,
        params.n_stack,
        params.log_blowup,
        params.k_whir(),
        &[matrix],
    )?;
    Ok(CommittedTraceData {
        commitment,
        trace: matrix.clone(),
        data: Arc::new(data),
    })
}

/// Writes traces, of their host's or of their CPU prover's context.
pub fn write_traces<PB>(path: &Path, context: &ProvingContext<PB>) -> Result<()>
where
    PB: ProverBackend<Val = F, Commitment = Digest>,
    for<'a> &'a PB::Matrix: Into<Array<'a>>,
{
    let mut arrays = ArrayWriter::default();
    let mut sorted = context.per_trace.iter().collect::<Vec<_>>();
    sorted.sort_by_key(|(air, _)| *air);
    let traces = sorted.into_iter().map(|(air, trace)| {
        let cached = trace.cached_mains.iter().map(|each| {
            json!({
                "commit": digest_json(&each.commitment),
                "trace": arrays.add(&each.trace),
            })
        });
        let cached = cached.collect::<Vec<_>>();
        json!({
            "air": air,
            "height": trace.common_main.height(),
            "public_values": trace.public_values.iter().map(F::as_canonical_u32).collect::<Vec<_>>(),
            "cached_mains": cached,
            "common_main": arrays.add(&trace.common_main),
        })
    });
    let traces = traces.collect::<Vec<_>>();
    arrays.write(
        path,
        MAGIC,
        &json!({"format": "openvm-traces", "version": 1, "traces": traces}),
    )
}

/// Reads traces; refuses cached ones whose commitment differs from their content.
pub fn read_traces(path: &Path, config: &Config) -> Result<HostContext> {
    let mut file = ArrayReader::read(path, MAGIC)?;
    ensure!(
        file.header.take("format")? == "openvm-traces" && file.header.number("version")? == 1,
        "another format"
    );
    let entries = file.header.list("traces")?;
    let mut traces = Vec::new();
    let mut commits = Vec::new();
    for entry in entries {
        let mut entry = Object::new(entry)?;
        let mut cached_mains = Vec::new();
        for cached in entry.list("cached_mains")? {
            let mut cached = Object::new(cached)?;
            commits.push(read_digest(cached.take("commit")?)?);
            cached_mains.push(file.matrix(cached.take("trace")?)?);
            cached.end()?;
        }
        let public = entry
            .list("public_values")?
            .into_iter()
            .map(public_value)
            .collect::<Result<Vec<_>>>()?;
        let common_main = file.matrix(entry.take("common_main")?)?;
        let height = entry.number("height")?;
        let heights = cached_mains.iter().chain([&common_main]).map(MatrixDimensions::height);
        ensure!(
            heights.into_iter().all(|each| each == height),
            "matrices of other heights"
        );
        traces.push(Trace {
            air: entry.number("air")?,
            common_main,
            cached_mains,
            public_values: public,
        });
        entry.end()?;
    }
    file.header.end()?;
    ensure!(
        traces.windows(2).all(|pair| pair[0].air < pair[1].air),
        "AIR ids do not ascend"
    );
    let context = proving_context(config, &traces)?;
    let committed = context
        .per_trace
        .iter()
        .flat_map(|(_, trace)| trace.cached_mains.iter().map(|each| each.commitment));
    ensure!(committed.eq(commits), "another commitment of a cached matrix");
    Ok(context)
}

fn public_value(value: Value) -> Result<F> {
    element(u32::try_from(value.as_u64().context("a public value")?)?)
}
