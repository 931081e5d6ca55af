// Verifies many keys, or powers-of-tau files, with snarkjs in one process, and prints "ok" or "bad" for each:
//   node verify_ceremonies.mjs SNARKJS zkey R1CS PTAU ZKEY...
//   node verify_ceremonies.mjs SNARKJS ptau PTAU...
import { pathToFileURL } from "node:url";

const [library, kind, ...files] = process.argv.slice(2);
const { zKey, powersOfTau } = await import(pathToFileURL(library));
console.log = () => {}; // snarkjs prints faults here
const [r1cs, ptau] = kind === "zkey" ? files.splice(0, 2) : [];
for (const file of files) {
  let ok = false;
  try {
    ok = kind === "zkey" ? await zKey.verifyFromR1cs(r1cs, ptau, file) : await powersOfTau.verify(file);
  } catch {
    // a file that snarkjs cannot read
  }
  process.stdout.write(`${ok === true ? "ok" : "bad"} ${file}\n`);
}
process.exit(0);
