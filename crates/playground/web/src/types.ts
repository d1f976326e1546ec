/** What the simulator answers (`crates/playground/src`). */

export interface Problem { place?: [number, number]; field: string; message: string; hint?: string }

export interface Flow {
  name: string; kind: string; outcome: string; goodput_mbps: number; completion: number | null; delay_mean_ms: number | null; delay_p95_ms: number | null;
  packets: number; retransmissions: number; timeouts: number; lost_in_queues: number; lost_elsewhere: number; a_c: number | null; a_w: number | null;
}

export interface PathSeries { flow: number; path: number; name: string; t: number[]; cwnd: number[]; ssthresh: number[]; flight: number[]; srtt_ms: (number | null)[] }

export interface Recorded {
  paths: PathSeries[];
  goodput: { flow: number; t: number[]; mbps: number[] }[];
  queues: { name: string; t: number[]; packets: number[] }[];
  sent: { flow: number; t: number[]; tsn: number[]; path: number[]; again: number[] }[];
  lost: { flow: number; t: number[]; tsn: number[]; path: number[]; verdict: string[]; cause: string[]; before: number[]; after: number[] }[];
  drops: { t: number[]; flow: number[]; cause: string[]; congestion: number[] };
  cut: boolean;
}

export interface Outcome {
  title: string; points: number; warnings: string[]; seed: number; ended: number; events: number; fingerprint: string;
  flows: Flow[]; links: { name: string; from: string; utilisation: number; mean_queue_packets: number; drops: number }[]; recorded: Recorded;
}

export interface SchemeText { name: string; summary: string; source: string }

export type Answer = { outcome: Outcome } | { valid: { points: number; warnings: string[] } } | { schemes: SchemeText[] } | { problems: Problem[] };

export interface Request { text?: string; set?: string[]; seed?: number; check?: boolean; schemes?: boolean }
