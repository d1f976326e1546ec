/** Reads the columns that `crates/report/src/columns.rs` writes. */
import type { Column } from './types';

export type Numbers = Float64Array | Float32Array | Uint32Array | Uint16Array | Uint8Array;

const WIDTH = { u8: 1, u16: 2, u32: 4, f32: 4, f64: 8, d32: 4 } as const;
/** Columns that were read, by what they are made of: many series have the same times. */
const known = new Map<string, Promise<Numbers>>();

/** The numbers of a column; NaN where there is none. They are read once. */
export function numbers(column: Column): Promise<Numbers> {
  if (column.t === 'in') return read(column);
  const key = column.t === 'lin' ? `${column.n} ${column.first} ${column.step}` : `blob ${column.b}`;
  let found = known.get(key);
  if (!found) {
    found = read(column);
    known.set(key, found);
  }
  return found;
}

/** The numbers of several columns by their names. */
export async function all<K extends string>(columns: Record<K, Column>): Promise<Record<K, Numbers>> {
  const names = Object.keys(columns) as K[];
  const lists = await Promise.all(names.map((name) => numbers(columns[name])));
  return Object.fromEntries(names.map((name, i) => [name, lists[i]])) as Record<K, Numbers>;
}

export function length(column: Column): number {
  return column.t === 'in' ? column.v.length : column.n;
}

async function read(column: Column): Promise<Numbers> {
  if (column.t === 'in') return Float64Array.from(column.v, (value) => value ?? NaN);
  if (column.t === 'lin') {
    const values = new Float64Array(column.n);
    for (let i = 0; i < values.length; i++) values[i] = column.first + i * column.step;
    return values;
  }
  const width = WIDTH[column.t];
  const planes = await unpack(column.b);
  const n = column.n;
  if (planes.length !== n * width) throw new Error(`column of ${n} has ${planes.length} bytes`);
  const bytes = new Uint8Array(planes.length);
  for (let plane = 0; plane < width; plane++) {
    for (let i = 0, from = plane * n, to = plane; i < n; i++, from++, to += width) bytes[to] = planes[from]!;
  }
  switch (column.t) {
    case 'u8': return bytes;
    case 'u16': return new Uint16Array(bytes.buffer);
    case 'u32': return new Uint32Array(bytes.buffer);
    case 'f32': return new Float32Array(bytes.buffer);
    case 'f64': return new Float64Array(bytes.buffer);
    case 'd32': return integrated(new Uint32Array(bytes.buffer), column.first, column.scale);
  }
}

function integrated(zigzag: Uint32Array, first: number, scale: number): Float64Array {
  const values = new Float64Array(zigzag.length);
  let at = first;
  for (let i = 0; i < zigzag.length; i++) {
    const step = zigzag[i]!;
    at += step % 2 === 0 ? step / 2 : -(step + 1) / 2;
    values[i] = at * scale;
  }
  return values;
}

/** Bytes of a text in Base64. Browsers since 2025 have a function for it. */
function decoded(text: string): Uint8Array<ArrayBuffer> {
  const bytes = Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };
  if (bytes.fromBase64) return bytes.fromBase64(text);
  const binary = atob(text);
  const packed = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) packed[i] = binary.charCodeAt(i);
  return packed;
}

async function unpack(blob: number): Promise<Uint8Array> {
  const text = document.getElementById(`blob-${blob}`)?.textContent;
  if (text == null) throw new Error(`the page has no blob ${blob}`);
  const stream = new Blob([decoded(text)]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
