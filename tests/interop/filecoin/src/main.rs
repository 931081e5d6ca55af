//! What storage-proofs and bellperson make of Filecoin's circuits, and of proofs by others.
//!
//!     rows [NAME ...]                sizes, and the digest of the rows in their order
//!     params NAME KEY.params         parameters for a circuit, with the verification key beside them as KEY.vk
//!     verify KEY.vk PROOF PUBLIC     whether a proof of 192 bytes verifies for a JSON list of public values

mod circuits;
mod keys;
mod recorded;

use std::{path::Path, process::exit};

use bellperson::Circuit;
use blstrs::Scalar as Fr;
use circuits::{with, Use, NAMES};
use recorded::Recorded;

struct Record;

impl Use for Record {
    type Made = Recorded;
    fn of(self, circuit: impl Circuit<Fr> + Send) -> Recorded {
        Recorded::of(circuit)
    }
}

fn rows(asked: &[&str]) {
    for name in if asked.is_empty() { NAMES } else { asked } {
        let system = with(name, Record);
        println!("{name}: {}", system.sizes());
        println!("{name}: {}", system.digest());
    }
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    match given[..] {
        ["rows", ref asked @ ..] => rows(asked),
        ["params", name, path] => with(name, keys::Generate(Path::new(path))),
        ["verify", vk, proof, public] => {
            let good = keys::verifies(Path::new(vk), Path::new(proof), Path::new(public));
            println!("{}", if good { "verified" } else { "refused" });
            exit(i32::from(!good));
        }
        _ => {
            eprintln!("rows [NAME ...] | params NAME KEY.params | verify KEY.vk PROOF PUBLIC");
            exit(2);
        }
    }
}
