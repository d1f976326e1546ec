/** Workers with the simulator, one for each scheme that is compared. */
import type { Answer, Request } from './types';

export interface Reply { answer: Answer; took: number }

/** The content of an embedded text, unpacked. */
async function unpacked(id: string): Promise<ArrayBuffer> {
  const binary = atob(document.getElementById(id)?.textContent ?? '');
  const bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
}

let parts: Promise<{ module: WebAssembly.Module; program: string }> | undefined;

function load() {
  parts ??= (async () => {
    const module = await WebAssembly.compile(await unpacked('simulator'));
    const program = URL.createObjectURL(new Blob([document.getElementById('worker')?.textContent ?? ''], { type: 'text/javascript' }));
    return { module, program };
  })();
  return parts;
}

export class Simulator {
  private worker: Worker | null = null;
  private number = 0;
  private waiting: ((reply: Reply | null) => void) | null = null;

  /** Runs a request. A request that is still running is ended and yields null. */
  async run(request: Request): Promise<Reply | null> {
    this.stop();
    const id = ++this.number;
    const { module, program } = await load();
    if (id !== this.number) return null;
    if (!this.worker) {
      this.worker = new Worker(program);
      this.worker.postMessage({ module });
    }
    const { worker } = this;
    return new Promise((resolve) => {
      this.waiting = resolve;
      worker.onmessage = (event: MessageEvent<{ id: number } & Reply>) => {
        if (event.data.id !== id) return;
        this.waiting = null;
        resolve(event.data);
      };
      worker.onerror = (event) => {
        this.waiting = null;
        this.worker = null;
        resolve({ answer: { problems: [{ field: '', message: `the simulator stopped: ${event.message}` }] }, took: 0 });
      };
      worker.postMessage({ id, request });
    });
  }

  /** Ends a running request. */
  stop(): void {
    this.number++;
    if (!this.waiting) return;
    this.worker?.terminate();
    this.worker = null;
    this.waiting(null);
    this.waiting = null;
  }
}
