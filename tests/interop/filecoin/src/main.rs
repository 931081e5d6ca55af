//! What storage-proofs and bellperson make of Filecoin's circuits: sizes, and the digest of their rows in their order.

mod circuits;
mod recorded;

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

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let asked: Vec<&str> = if asked.is_empty() {
        NAMES.to_vec()
    } else {
        asked.iter().map(String::as_str).collect()
    };
    for name in asked {
        let system = with(name, Record);
        println!("{name}: {}", system.sizes());
        println!("{name}: {}", system.digest());
    }
}
