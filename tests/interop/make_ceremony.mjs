// Makes a whole ceremony with snarkjs, in the folder that it is given:
//   node make_ceremony.mjs SNARKJS CURVE POWER R1CS FOLDER
// first.ptau has one contribution, last.ptau two and a beacon, final.ptau is prepared for phase 2. initial.zkey has
// no contribution, last.zkey two and a beacon, whose hashes are printed.
import { pathToFileURL } from "node:url";

const [library, name, power, r1cs, folder] = process.argv.slice(2);
const { powersOfTau, zKey, curves } = await import(pathToFileURL(library));
const at = (file) => `${folder}/${file}`;
const curve = await curves.getCurveFromName(name);
await powersOfTau.newAccumulator(curve, Number(power), at("new.ptau"));
await powersOfTau.contribute(at("new.ptau"), at("first.ptau"), "first", "entropy");
await powersOfTau.contribute(at("first.ptau"), at("second.ptau"), undefined, "entropy");
await powersOfTau.beacon(at("second.ptau"), at("last.ptau"), "block", "0c0d", 10);
await powersOfTau.preparePhase2(at("last.ptau"), at("final.ptau"));
await zKey.newZKey(r1cs, at("final.ptau"), at("initial.zkey"));
const hashes = [
  await zKey.contribute(at("initial.zkey"), at("1.zkey"), "one", "entropy"),
  await zKey.contribute(at("1.zkey"), at("2.zkey"), undefined, "entropy"),
  await zKey.beacon(at("2.zkey"), at("last.zkey"), "end", "0a0b", 10),
];
for (const hash of hashes) console.log(Buffer.from(hash).toString("hex"));
process.exit(0);
