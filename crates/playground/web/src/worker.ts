/** Runs the simulator in a worker, so that the page stays usable. The first message has the module, each other one a request. */
import type { Request } from './types';

interface Exports { memory: WebAssembly.Memory; reserve(length: number): number; answer(): number; place(): number }

let exports: Promise<Exports> | undefined;

self.onmessage = async (event: MessageEvent<{ module: WebAssembly.Module } | { id: number; request: Request }>) => {
  const { data } = event;
  if ('module' in data) {
    exports = WebAssembly.instantiate(data.module, {}).then((instance) => instance.exports as unknown as Exports);
    return;
  }
  const began = performance.now();
  try {
    const simulator = await exports!;
    const request = new TextEncoder().encode(JSON.stringify(data.request));
    const place = simulator.reserve(request.length);
    new Uint8Array(simulator.memory.buffer, place, request.length).set(request);
    const length = simulator.answer();
    const answer = new TextDecoder().decode(new Uint8Array(simulator.memory.buffer, simulator.place(), length));
    self.postMessage({ id: data.id, answer: JSON.parse(answer), took: performance.now() - began });
  } catch (error) {
    self.postMessage({ id: data.id, answer: { problems: [{ field: '', message: `the simulator failed: ${String(error)}` }] }, took: 0 });
  }
};
