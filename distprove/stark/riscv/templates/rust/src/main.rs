//! Adds up the orders of a ledger. The ledger is private input, and the report is public output.
//! `host.py` has the same types in Python.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;
use guest::println;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Order {
    customer: String,
    cents: u64,
}

#[derive(Serialize)]
struct Report {
    orders: u32,
    total: u64,
    largest: Option<u64>,
}

guest::entry!(main);

fn main() {
    let orders: Vec<Order> = guest::read();
    let mut total = 0u64;
    for order in &orders {
        println!("{} spends {}", order.customer, order.cents); // `distprove run` shows it; no proof has it
        total = total.checked_add(order.cents).expect("the total has 64 bits");
    }
    let largest = orders.iter().map(|order| order.cents).max();
    guest::commit(&Report { orders: orders.len() as u32, total, largest });
}
