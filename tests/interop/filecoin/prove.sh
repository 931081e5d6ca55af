#!/bin/sh
# bellperson makes parameters for a circuit, distprove proves under them, bellperson verifies the proof and refuses it for
# another public value:
#
#     sh prove.sh FOLDER [NAME ...]
#
# FOLDER keeps the files. Parameters of a circuit of 22,000 constraints take seconds, those of porep-2KiB (1.1 GB) much longer.
set -eu
folder=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
cargo build --quiet --release --manifest-path "$here/Cargo.toml"
theirs() { cargo run --quiet --release --manifest-path "$here/Cargo.toml" -- "$@"; }
for name in ${*:-window-post-2KiB snap-deals-poseidon-2KiB winning-post-2KiB}; do
  key=$folder/$name
  mkdir -p "$key"
  test -f "$key/key.params" || theirs params "$name" "$key/key.params"
  distprove setup inputs --circuit "filecoin/$name" --count 1 --out "$key/inputs" --overwrite
  distprove prove groth16 --params "$key/key.params" --circuit "filecoin/$name" --input "$key/inputs" \
    --local --out "$key/run" --overwrite
  rm -rf "$key/exported"
  distprove export "$key/run" --out "$key/exported"
  public=$key/exported/0/public.json
  theirs verify "$key/key.vk" "$key/exported/0/proof.bin" "$public"
  sed '0,/"[0-9]/s//"1/' "$public" > "$key/other.json"
  if theirs verify "$key/key.vk" "$key/exported/0/proof.bin" "$key/other.json"; then exit 1; fi
done
