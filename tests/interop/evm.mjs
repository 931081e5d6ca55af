// Compiles contracts with solc and calls them in an EVM: [{"source": "...", "calls": ["0x...", ...]}, ...] on stdin, and
// [{"size": bytes of code, "warnings": [...], "results": [{"valid": true, false or null, "gas": n}, ...]}, ...] on stdout.
// null stands for a call that reverts. Gas is that of execution: no 21,000 of a transaction, no calldata.
// "imports" are other sources by their names. With "contract", the name of one, its calls may change its storage.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Common, Hardfork, Mainnet } from "@ethereumjs/common";
import { createEVM } from "@ethereumjs/evm";
import { createAccount, createAddressFromString, hexToBytes } from "@ethereumjs/util";

const solc = createRequire(import.meta.url)("solc");
const common = new Common({ chain: Mainnet, hardfork: Hardfork.Prague });

async function answersOf({ source, calls, imports = {}, contract }) {
  const compiled = JSON.parse(
    solc.compile(
      JSON.stringify({
        language: "Solidity",
        sources: Object.fromEntries(
          Object.entries({ ...imports, "contract.sol": source }).map(([name, content]) => [name, { content }]),
        ),
        settings: {
          optimizer: { enabled: true, runs: 200 },
          evmVersion: "prague",
          outputSelection: { "*": { "*": ["evm.deployedBytecode.object"] } },
        },
      }),
    ),
  );
  const told = compiled.errors ?? [];
  if (told.some((each) => each.severity === "error")) throw new Error(told.map((each) => each.formattedMessage).join("\n"));
  const found = compiled.contracts["contract.sol"];
  const made = contract ? found[contract] : Object.values(found)[0];
  const code = hexToBytes("0x" + made.evm.deployedBytecode.object);

  const evm = await createEVM({ common });
  const address = createAddressFromString("0x" + "11".repeat(20));
  await evm.stateManager.putAccount(address, createAccount({ balance: 0n }));
  await evm.stateManager.putCode(address, code);

  const results = [];
  for (const data of calls) {
    const { execResult } = await evm.runCall({ to: address, data: hexToBytes(data), gasLimit: 30_000_000n, isStatic: !contract });
    const word = execResult.returnValue;
    const valid = execResult.exceptionError || word.length !== 32 ? null : BigInt("0x" + Buffer.from(word).toString("hex"));
    results.push({ valid: valid === null ? null : valid === 1n ? true : valid === 0n ? false : `${valid}`, gas: Number(execResult.executionGasUsed) });
  }
  return { size: code.length, warnings: told.map((each) => each.message), results };
}

const told = [];
for (const contract of JSON.parse(readFileSync(0, "utf8"))) told.push(await answersOf(contract));
console.log(JSON.stringify(told));
