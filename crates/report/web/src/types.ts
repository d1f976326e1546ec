/** What the Rust side writes into the page (`crates/report/src`). */

/** A column of numbers; `columns.rs` lists the forms. */
export type Column =
  | { t: 'in'; v: (number | null)[] }
  | { t: 'lin'; n: number; first: number; step: number }
  | { t: 'u8' | 'u16' | 'u32' | 'f32' | 'f64'; n: number; b: number }
  | { t: 'd32'; n: number; b: number; first: number; scale: number };

export interface Metric { name: string; label: string; doc: string; quiet: boolean }
export type Value = string | number | boolean | null;
export interface Axis { name: string; short: string; values: Value[] }
export interface Figures { flow: string; metric: string; mean: Column; ci95: Column; n: Column }
export interface Points { axes: Axis[]; usual: string[]; places: number[][]; runs: number[]; deterministic: boolean[]; figures: Figures[] }
export interface TableColumn { name: string; numbers?: Column; words?: string[]; codes?: Column }
export interface Table { name: string; what: string; rows: number; columns: TableColumn[] }

export interface Line {
  t: Column; v: Column; name: string;
  node?: string; flow?: string; side?: string; path?: string; path_name?: string; link?: string;
}
type Columns<K extends string> = Record<K, Column>;
export interface Events {
  words: string[];
  sent: Columns<'t' | 'flow' | 'node' | 'path' | 'tsn' | 'length' | 'again' | 'fate'>;
  acked: Columns<'t' | 'flow' | 'node' | 'tsn'>;
  lost: Columns<'t' | 'flow' | 'node' | 'path' | 'tsn' | 'rule'>;
  judged: Columns<'t' | 'flow' | 'node' | 'path' | 'tsn' | 'verdict' | 'signal' | 'before' | 'after' | 'episode' | 'truth' | 'drop' | 'wrong'>;
  drops: Columns<'t' | 'sent' | 'flow' | 'node' | 'link' | 'cause' | 'forward' | 'congestion' | 'length' | 'number'>;
  packets: Columns<'t' | 'flow' | 'node' | 'path' | 'length' | 'took' | 'drop'>;
  changes: Columns<'t' | 'flow' | 'node' | 'path' | 'what' | 'value'>;
  frames: Columns<'t' | 'from' | 'to' | 'kind' | 'airtime' | 'retry' | 'lost'>;
}
export interface NetworkLink {
  name: string; between: [string, string]; rate: string | null; delay: string; schedule: { at: number; up: boolean | null }[];
}
export interface Network {
  nodes: { name: string; position: [number, number] | null }[];
  links: NetworkLink[];
  radios: { name: string; node: string; channel: string }[];
  flows: { name: string; from: string; to: string }[];
  routes: { flow: string; from: string; to: string; nodes: number[]; links: number[] }[];
}
/** A live transfer: when its time 0 was, in milliseconds since 1970, its last event, and its first associations with the nodes that recorded them. */
export interface Live { began: number; seconds: number; associations: number; flows: { name: string; from: string }[] }
export interface Recorded {
  name: string; samples: number; cut: boolean; series: Line[] | null; events: Events | null;
  /** Of a simulated or emulated run. */
  run?: number; point?: number; seed?: string; network?: Network | null; radios?: [string, number][] | null;
  live?: Live;
}
export interface Scenario {
  name: string; title: string; description: string; path: string; text: string; hash: string; changes: string[]; command: string[];
  whimbrel: string; status: string; seed: string; seeds: number; runs: number; expected: number; failures: string[]; failed: number;
  cut: string[]; packet_hops: number; points: Points; tables: Table[]; recorded: Recorded[]; left_out: string[];
}
export interface ClaimPoint { at: [string, Value][]; mean: number; ci95: number | null; paper: number | null }
export interface Claim {
  id: string; claim: string; paper: Value; text: string; verdict: string; note: string; metric: string | null; of: string | null; over: string | null;
  points: ClaimPoint[];
}
export interface Study {
  study: string; title: string; source: string; description: string; whimbrel: string; command: string; claims: Claim[];
  figures: { id: string; points: ClaimPoint[] }[];
}
export interface Data { version: string; title: string; metrics: Metric[]; study: Study | null; scenarios: Scenario[]; recordings: Recorded[]; left_out: string[] }
