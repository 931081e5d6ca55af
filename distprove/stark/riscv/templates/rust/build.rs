//! Links the guest with the memory map of the machine, `runtime/src/guest.ld`.

fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rerun-if-changed=runtime/src/guest.ld");
    println!("cargo:rustc-link-arg-bins=-T{root}/runtime/src/guest.ld");
    println!("cargo:rustc-link-arg-bins=-zmax-page-size=4");
}
