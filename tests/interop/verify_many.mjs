// Verifies many proofs with snarkjs in one process: node verify_many.mjs SNARKJS VK PROOF_DIR...
// Each PROOF_DIR holds proof.json and public.json. Prints one line a folder, "ok" or "bad"; exits 1 if any is bad.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [library, vkFile, ...folders] = process.argv.slice(2);
const { groth16 } = await import(pathToFileURL(library));
const read = (file) => JSON.parse(readFileSync(file, "utf8"));
const vk = read(vkFile);
let bad = 0;
for (const folder of folders) {
  const ok = await groth16.verify(vk, read(`${folder}/public.json`), read(`${folder}/proof.json`));
  console.log(ok ? "ok" : "bad", folder);
  if (!ok) bad += 1;
}
process.exit(bad ? 1 : 0);
