/** Scenarios to start with, and what of them can be dragged. */

export interface Slider {
  id: string; label: string; unit: string; least: number; most: number; step: number; value: number;
  /** The factor per step is constant. */
  logarithmic?: boolean;
  /** Fields of the scenario that follow the slider. */
  set: (value: number) => string[];
}

export interface Switch { id: string; label: string; on: boolean; /** Added to the text while it is on. */ text: string }

export interface Preset {
  id: string; name: string; about: string; text: string; schemes: [string, string];
  sliders: Slider[]; switches: Switch[];
  /** The flow whose scheme is chosen. */
  flow: string;
  /** What to try, in a sentence each. */
  tries: string[];
}

const LOSSY = `title = "one radio link"
duration = "30 s"

[[node]]
name = "sender"

[[node]]
name = "receiver"

[[link]]
name = "radio"
between = ["sender", "receiver"]
rate = "10 Mbit/s"
delay = "20 ms"
queue = { kind = "drop-tail", packets = 50 }
# Data is lost, acknowledgements are not.
forward = { loss = { kind = "bernoulli", rate = 0.01 } }

[[flow]]
name = "data"
from = "sender"
to = "receiver"
traffic = { kind = "endless", message_bytes = 1400 }

[measure]
interval = "50 ms"
`;

const COMPETITOR = `
[[flow]]
name = "cubic"
from = "sender"
to = "receiver"
traffic = { kind = "endless", message_bytes = 1400 }
sctp = { scheme = "cubic" }
`;

const RADIOS = `title = "two radios, one file"
duration = "60 s"

[[node]]
name = "phone"

[[node]]
name = "server"

[[link]]
name = "wifi"
between = ["phone", "server"]
rate = "20 Mbit/s"
delay = "10 ms"
queue = { kind = "drop-tail", packets = 60 }
loss = { kind = "bernoulli", rate = 0.01 }
schedule = [{ at = "1.5 s", up = false }, { at = "4 s", up = true }]

[[link]]
name = "lte"
between = ["phone", "server"]
rate = "8 Mbit/s"
delay = "35 ms"
queue = { kind = "drop-tail", packets = 100 }
loss = { kind = "markov", mean_good = "2 s", mean_bad = "20 ms", bad_loss = 0.5 }

[[flow]]
name = "upload"
from = "phone"
to = "server"
from_links = ["wifi", "lte"]
to_links = ["wifi", "lte"]
traffic = { kind = "file", file_bytes = 8_000_000, message_bytes = 8192 }

[flow.sctp]
path_max_retrans = 2

[measure]
interval = "50 ms"
`;

const rate = (field: string, value: number): Slider => ({
  id: field, label: `Rate${field === 'radio' ? '' : ` of ${field}`}`, unit: 'Mbit/s', least: 1, most: 50, step: 0.5, value, set: (v) => [`link.${field}.rate=${v} Mbit/s`],
});
const delay = (field: string, value: number): Slider => ({
  id: `${field}-delay`, label: `One-way delay${field === 'radio' ? '' : ` of ${field}`}`, unit: 'ms', least: 1, most: 200, step: 1, value, set: (v) => [`link.${field}.delay=${v} ms`],
});

export const PRESETS: Preset[] = [
  {
    id: 'lossy', name: 'One lossy radio link', flow: 'data', text: LOSSY, schemes: ['standard', 'jsctp'],
    about: 'One sender, one radio link that loses packets at random, one queue in front of it. Both schemes run in the same network with the same seed: the more a scheme sends, the more of its packets the channel loses.',
    sliders: [
      { id: 'loss', label: 'Packets lost by the channel', unit: '%', least: 0, most: 10, step: 0.1, value: 1, set: (v) => [`link.radio.forward.loss.rate=${v / 100}`] },
      rate('radio', 10), delay('radio', 20),
      { id: 'queue', label: 'Queue', unit: 'packets', least: 2, most: 300, step: 1, value: 50, set: (v) => [`link.radio.queue.packets=${v}`] },
    ],
    switches: [{ id: 'competitor', label: 'CUBIC flow beside it', on: false, text: COMPETITOR }],
    tries: [
      'Set the loss to 0: both schemes fill the link, and only the queue loses packets.',
      'Raise the loss: the standard halves its window at each lost packet, although the queue is almost empty.',
      'Add the CUBIC flow: which scheme keeps its share, and which one takes too much?',
    ],
  },
  {
    id: 'radios', name: 'Two radios, one file', flow: 'upload', text: RADIOS, schemes: ['standard', 'multipath'],
    about: 'A phone sends 8 MB over Wi-Fi and LTE. Wi-Fi is cut for a while. The standard uses one path at a time; multipath uses both.',
    sliders: [
      { id: 'wifi-loss', label: 'Packets lost on Wi-Fi', unit: '%', least: 0, most: 10, step: 0.1, value: 1, set: (v) => [`link.wifi.loss.rate=${v / 100}`] },
      rate('wifi', 20), rate('lte', 8), delay('wifi', 10), delay('lte', 35),
      {
        id: 'cut', label: 'Wi-Fi is cut at 1.5 s for', unit: 's', least: 0, most: 20, step: 0.1, value: 2.5,
        set: (v) => (v === 0 ? ['link.wifi.schedule=[]'] : [`link.wifi.schedule=[{ at = "1.5 s", up = false }, { at = "${(1.5 + v).toFixed(1)} s", up = true }]`]),
      },
    ],
    switches: [],
    tries: [
      'Make the cut longer: the standard waits for several timeouts before it uses LTE.',
      'Set both rates to 10 Mbit/s, the losses and the cut to 0: how close does multipath come to 20 Mbit/s?',
    ],
  },
];
