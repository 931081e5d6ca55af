//! Executes a guest program on OpenVM's RV32IM machine, and writes the key and the traces of each segment.

use std::{collections::VecDeque, fs, path::Path, process::ExitCode, time::Instant};

use anyhow::{anyhow, bail, Context, Result};
use openvm_circuit::arch::{instructions::exe::VmExe, VirtualMachine};
use openvm_judge::{key::write_key, traces::write_traces, transcript::Engine};
use openvm_rv32im_circuit::{Rv32ImConfig, Rv32ImCpuBuilder};
use openvm_rv32im_transpiler::{Rv32ITranspilerExtension, Rv32IoTranspilerExtension, Rv32MTranspilerExtension};
use openvm_stark_backend::{p3_field::PrimeCharacteristicRing, prover::ProvingContext, StarkEngine};
use openvm_stark_sdk::config::{app_params_with_100_bits_security, baby_bear_poseidon2::F};
use openvm_transpiler::{elf::Elf, openvm_platform::memory::MEM_SIZE, transpiler::Transpiler, FromElf};

const USAGE: &str = "openvm-trace ELF FOLDER LOG [INPUT]...
  writes key.bin, and traces-0.bin, traces-1.bin, ... for the segments of the run;
  LOG: log2 of the stack's height, at most 24, which bounds the height of traces too;
  INPUT: an entry of the input stream, bytes in hexadecimal";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [elf, folder, log, inputs @ ..] => match run(Path::new(elf), Path::new(folder), log, inputs) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error:#}");
                ExitCode::from(2)
            }
        },
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run(elf: &Path, folder: &Path, log: &str, inputs: &[&str]) -> Result<()> {
    let bytes = fs::read(elf).with_context(|| format!("cannot read {}", elf.display()))?;
    let elf = Elf::decode(&bytes, MEM_SIZE as u32).map_err(|error| anyhow!("no program: {error}"))?;
    let inputs = inputs
        .iter()
        .map(|input| input_entry(input))
        .collect::<Result<VecDeque<_>>>()?;
    let transpiler = Transpiler::<F>::default()
        .with_extension(Rv32ITranspilerExtension)
        .with_extension(Rv32MTranspilerExtension)
        .with_extension(Rv32IoTranspilerExtension);
    let exe = VmExe::from_elf(elf, transpiler)?;
    fs::create_dir_all(folder)?;

    let clock = Instant::now();
    let engine = Engine::new(app_params_with_100_bits_security(log.parse()?));
    let (mut vm, key) = VirtualMachine::new_with_keygen(engine, Rv32ImCpuBuilder, Rv32ImConfig::default())?;
    write_key(&folder.join("key.bin"), &key)?;
    println!(
        "key: {} AIRs, {:.1} s",
        key.per_air.len(),
        clock.elapsed().as_secs_f64()
    );

    let program = vm.commit_program_on_device(&exe.program);
    vm.load_program(program);
    let metered = vm.build_metered_ctx(&exe);
    let (segments, _) = vm.metered_interpreter(&exe)?.execute_metered(inputs.clone(), metered)?;
    let mut interpreter = vm.preflight_interpreter(&exe)?;
    let mut state = vm.create_initial_state(&exe, inputs);
    for (index, segment) in segments.into_iter().enumerate() {
        let clock = Instant::now();
        vm.transport_init_memory_to_device(&state.memory);
        let instructions = Some(segment.num_insns);
        let output = vm.execute_preflight(&mut interpreter, state, instructions, &segment.trace_heights)?;
        state = output.to_state;
        let context = vm.generate_proving_ctx(output.system_records, output.record_arenas)?;
        write_traces(&folder.join(format!("traces-{index}.bin")), &context)?;
        let (count, cells) = size(&context);
        let (instructions, seconds) = (segment.num_insns, clock.elapsed().as_secs_f64());
        println!("segment {index}: {instructions} instructions, {count} traces, {cells} cells, {seconds:.1} s");
    }
    Ok(())
}

/// Traces of a segment, and their cells.
fn size(context: &ProvingContext<<Engine as StarkEngine>::PB>) -> (usize, usize) {
    let traces = context.per_trace.iter().map(|(_, trace)| trace);
    let cells = traces.map(|trace| {
        let cached = trace
            .cached_mains
            .iter()
            .map(|each| each.trace.values.len())
            .sum::<usize>();
        trace.common_main.values.len() + cached
    });
    (context.per_trace.len(), cells.sum())
}

fn input_entry(text: &str) -> Result<Vec<F>> {
    if text.len() % 2 != 0 || !text.is_ascii() {
        bail!("{text} is not hexadecimal");
    }
    let bytes = (0..text.len())
        .step_by(2)
        .map(|start| u8::from_str_radix(&text[start..start + 2], 16));
    Ok(bytes.map(|byte| byte.map(F::from_u8)).collect::<Result<Vec<_>, _>>()?)
}
