"use strict";
// The demo's module without a browser.
//   node node.js minute                 the machine's time for a simulated minute of both runs
//   node node.js numbers SET REQUESTS   the results after this many requests (1000, 10000, ...) as JSON; SET is JSON, as {"seed":7}
const { join } = require("node:path");
require(join(__dirname, "freeblock.wasm.js"));
require(join(__dirname, "site.js"));

async function main([what, set, requests]) {
  const ask = await globalThis.freeblockSite.open();
  if (what === "minute") {
    ask({ now_ms: 0, look: true });
    const began = performance.now();
    while (ask({ now_ms: 60_000, step: true }).more);
    const { snapshot } = ask({ now_ms: 60_000, look: true });
    const { same, compared } = snapshot.disks[0].arms;
    console.log(`a simulated minute of both runs, ${compared} requests each, ${same} of them identical: ${((performance.now() - began) / 1000).toFixed(2)} s`);
  } else if (what === "numbers") {
    ask({ now_ms: 0, set: { ...JSON.parse(set), speed: 16384 } });
    for (let ms = 1; ; ms++) {
      while (ask({ now_ms: ms, step: true }).more);
      const { numbers } = ask({ now_ms: ms, look: true }).snapshot.demo;
      if (numbers?.results.foreground.requests >= Number(requests)) return console.log(JSON.stringify(numbers));
    }
  } else throw new Error("give minute, or numbers SET REQUESTS");
}
main(process.argv.slice(2)).catch(error => { console.error(error.message); process.exitCode = 1; });
