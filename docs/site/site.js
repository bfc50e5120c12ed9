"use strict";
// The demo in this browser alone: the simulator is a WebAssembly module, and takes the place of the daemon that page.js follows.
// The module imports nothing, and its text is in freeblock.wasm.js, so that the page also opens from a file.
globalThis.freeblockSite = (() => {
  const BEAT_MS = 20;
  // A part of each beat is left for drawing and for the controls.
  const BUDGET_MS = 14;
  const LOOK_MS = 1000;
  const text = new TextEncoder(), back = new TextDecoder();

  // Returns a function that asks the module and returns its answer.
  async function open() {
    const bytes = Uint8Array.from(atob(globalThis.freeblockWasm), letter => letter.charCodeAt(0));
    const { exports } = (await WebAssembly.instantiate(bytes, {})).instance;
    return question => {
      const said = text.encode(JSON.stringify(question));
      const at = exports.freeblock_question(said.length);
      new Uint8Array(exports.memory.buffer, at, said.length).set(said);
      const length = exports.freeblock_ask();
      const answer = JSON.parse(back.decode(new Uint8Array(exports.memory.buffer, exports.freeblock_answer(), length)));
      if (answer.error !== null) throw new Error(answer.error);
      return answer;
    };
  }

  let ask = null;
  // Runs the demo, and passes each snapshot to `shown`; ends with an error only.
  async function follow(shown) {
    ask ??= await open();
    const show = () => shown(ask({ now_ms: performance.now(), look: true }).snapshot);
    show();
    for (let last = performance.now(); ;) {
      await new Promise(done => setTimeout(done, BEAT_MS));
      const now = performance.now();
      while (ask({ now_ms: now, step: true }).more) {
        if (performance.now() - now > BUDGET_MS) {
          ask({ now_ms: performance.now(), behind: true });
          break;
        }
      }
      if (now - last >= LOOK_MS) { last = now; show(); }
    }
  }

  // Carries out a control of the page.
  function change(set) { ask({ now_ms: performance.now(), set }); }

  return { open, follow, change };
})();
