//! `events.jsonl`: what the sender did with each TSN, what the network did to packets, and what the paths and the radios did.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use crate::columns::Words;
use crate::error::ReportError;
use crate::line::{Data, End, Event, nanos};
use crate::live::Live;

/// Lines that are read of a file, at most.
const MOST_LINES: usize = 4_000_000;
/// Bytes of a line; what is longer is no event.
const LONGEST_LINE: u64 = 1 << 20;

/// A chunk, or segment, as it was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) at: i64,
    pub(crate) end: End,
    pub(crate) path: u32,
    pub(crate) tsn: u32,
    pub(crate) length: u32,
    pub(crate) again: bool,
    /// What became of it: [`ARRIVED`], or 1 more than its place in [`Events::drops`].
    pub(crate) fate: u32,
}

/// Nothing is known of a loss.
pub(crate) const ARRIVED: u32 = 0;

/// An acknowledgement of a TSN, or its being declared lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Noted {
    pub(crate) at: i64,
    pub(crate) end: End,
    pub(crate) path: u32,
    pub(crate) tsn: u32,
    /// The rule that declared it lost.
    pub(crate) rule: usize,
}

/// A judgement of the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) at: i64,
    pub(crate) end: End,
    pub(crate) path: u32,
    pub(crate) tsn: u32,
    pub(crate) verdict: usize,
    pub(crate) signal: usize,
    pub(crate) before: f64,
    pub(crate) after: f64,
    pub(crate) episode: u32,
    pub(crate) truth: Truth,
    /// 1 more than the place in [`Events::drops`] of what killed it, 0 if it was not lost.
    pub(crate) drop: u32,
}

/// What really became of a TSN that the sender judged lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    /// The network did not drop it.
    Arrived = 0,
    /// A queue dropped it.
    Congestion = 1,
    /// Anything else did.
    Transmission = 2,
    /// Not known: the network was a real one.
    Unknown = 3,
}

/// A packet that the network dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dropped {
    pub(crate) at: i64,
    pub(crate) sent: i64,
    pub(crate) flow: usize,
    pub(crate) node: usize,
    pub(crate) forward: bool,
    pub(crate) link: usize,
    pub(crate) cause: usize,
    pub(crate) congestion: bool,
    pub(crate) length: u32,
    pub(crate) number: u32,
    pub(crate) tsn: Option<u32>,
    pub(crate) chunks: u32,
}

/// A packet as one end sent it or received it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packet {
    pub(crate) at: i64,
    pub(crate) end: End,
    pub(crate) path: u32,
    pub(crate) length: u32,
}

/// Something that changed: a path, an association, a timer, a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) at: i64,
    pub(crate) end: End,
    pub(crate) path: Option<u32>,
    /// The last part of the event's name.
    pub(crate) what: usize,
    pub(crate) value: usize,
}

/// A frame of a radio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) at: i64,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: usize,
    /// Seconds on the air.
    pub(crate) airtime: f64,
    pub(crate) retry: bool,
    /// What it was lost by at `to`; the empty word if this is the sending of it.
    pub(crate) lost: usize,
}

/// Events of a run.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) words: Words,
    pub(crate) sent: Vec<Sent>,
    pub(crate) acked: Vec<Noted>,
    pub(crate) lost: Vec<Noted>,
    pub(crate) judged: Vec<Judged>,
    pub(crate) drops: Vec<Dropped>,
    pub(crate) departures: Vec<Packet>,
    pub(crate) arrivals: Vec<Packet>,
    pub(crate) changes: Vec<Change>,
    pub(crate) frames: Vec<Frame>,
    /// Whether the file has more lines than are read.
    pub(crate) cut: bool,
    /// Only of a live transfer.
    pub(crate) live: Option<Live>,
}

impl Events {
    /// Reads a file. A line that is cut off, or is no event, is left out.
    pub(crate) fn read(path: &Path) -> Result<Self, ReportError> {
        let error = ReportError::at(path);
        let mut events = Events::default();
        events.words.number("");
        let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(|e| error(&e))?);
        let mut line = Vec::new();
        for _ in 0..MOST_LINES {
            line.clear();
            let mut rest = reader.by_ref().take(LONGEST_LINE);
            if rest.read_until(b'\n', &mut line).map_err(|e| error(&e))? == 0 {
                events.settle();
                return Ok(events);
            }
            if let Ok(event) = serde_json::from_slice::<Event<'_>>(&line) {
                events.take(&event);
            }
        }
        events.cut = true;
        events.settle();
        Ok(events)
    }

    fn take(&mut self, event: &Event<'_>) {
        let mut at = nanos(event.time);
        let node = self.words.number(&event.node);
        let data = &event.data;
        let (group, name) = event.name.split_once(':').unwrap_or(("", &event.name));
        if (group, name) == ("recording", "started") {
            Live::start(&mut self.live, event.time, node, data.unix_ms);
            return;
        }
        let flow = match &mut self.live {
            None => self.words.number(&event.flow),
            Some(live) => {
                at = live.on_time(node, at);
                // Each node numbers its associations from 0.
                self.words
                    .number(&format!("association {} of {}", event.flow, event.node))
            }
        };
        let end = (flow, node);
        match (group, name) {
            ("recovery", "metrics_updated") => {
                // Of a simulated run they are in the series.
                if let Some(live) = &mut self.live {
                    live.on_metrics(at, end, data);
                }
            }
            ("connectivity", "path_assigned") => {
                if let Some(live) = &mut self.live {
                    live.on_path(end, data);
                }
            }
            ("transport", _) => self.transport(at, end, name, data),
            ("connectivity" | "routing", _) | ("recovery", "mode_updated" | "timer_expired") => {
                self.change(at, end, name, data);
            }
            ("recovery", _) => self.recovery(at, end, name, data),
            ("network", "packet_dropped") => self.drop(at, end, data),
            ("radio", _) => self.frame(at, data),
            _ => {}
        }
    }

    /// What an endpoint sent and received.
    fn transport(&mut self, at: i64, end: End, name: &str, data: &Data<'_>) {
        let path = data.path.unwrap_or(0);
        let tsn = data.tsn.unwrap_or(0);
        let length = data.length.unwrap_or(0);
        let packet = Packet { at, end, path, length };
        match name {
            "packet_sent" => self.departures.push(packet),
            "packet_received" => self.arrivals.push(packet),
            "tsn_sent" => self.sent.push(Sent {
                at,
                end,
                path,
                tsn,
                length,
                again: data.retransmission,
                fate: ARRIVED,
            }),
            "tsn_acked" => self.acked.push(Noted {
                at,
                end,
                path,
                tsn,
                rule: 0,
            }),
            _ => {}
        }
    }

    /// What a sender concluded of a TSN.
    fn recovery(&mut self, at: i64, end: End, name: &str, data: &Data<'_>) {
        let path = data.path.unwrap_or(0);
        let tsn = data.tsn.unwrap_or(0);
        match name {
            "tsn_lost" => {
                let rule = self.words.number(&data.trigger);
                self.lost.push(Noted {
                    at,
                    end,
                    path,
                    tsn,
                    rule,
                });
            }
            "loss_judged" => {
                let judged = Judged {
                    at,
                    end,
                    path,
                    tsn,
                    verdict: self.words.number(&data.verdict),
                    signal: self.words.number(&data.trigger),
                    before: data.congestion_window_before,
                    after: data.congestion_window,
                    episode: data.episode,
                    truth: Truth::Arrived,
                    drop: 0,
                };
                self.judged.push(judged);
            }
            _ => {}
        }
    }

    fn drop(&mut self, at: i64, end: End, data: &Data<'_>) {
        let dropped = Dropped {
            at,
            sent: nanos(data.sent),
            flow: end.0,
            node: end.1,
            forward: data.forward,
            link: self.words.number(&data.link),
            cause: self.words.number(&data.trigger),
            congestion: data.congestion,
            length: data.length.unwrap_or(0),
            number: data.number,
            tsn: data.tsn,
            chunks: data.data_chunks.max(1),
        };
        self.drops.push(dropped);
    }

    fn frame(&mut self, at: i64, data: &Data<'_>) {
        let frame = Frame {
            at,
            from: self.words.number(&data.from),
            to: self.words.number(&data.to),
            kind: self.words.number(&data.kind),
            airtime: data.duration / 1e3,
            retry: data.retry,
            lost: self.words.number(&data.trigger),
        };
        self.frames.push(frame);
    }

    fn change(&mut self, at: i64, end: End, name: &str, data: &Data<'_>) {
        let value = match name {
            "timer_expired" => Cow::Borrowed(&*data.timer),
            "next_hop_changed" => Cow::Owned(format!(
                "{} to {} over {}",
                data.from,
                data.destination,
                or_none(&data.next_hop)
            )),
            _ => Cow::Borrowed(&*data.new),
        };
        let change = Change {
            at,
            end,
            path: data.path,
            what: self.words.number(name),
            value: self.words.number(&value),
        };
        self.changes.push(change);
    }

    /// Finds out which chunks were in the packets that the network dropped, and whether the sender judged rightly.
    fn settle(&mut self) {
        if self.live.is_some() {
            return self.settle_live();
        }
        let mut sent: BTreeMap<(usize, u32, i64), Vec<usize>> = BTreeMap::new();
        for (place, chunk) in self.sent.iter().enumerate() {
            sent.entry((chunk.end.0, chunk.tsn, chunk.at)).or_default().push(place);
        }
        for (number, dropped) in (1..).zip(&self.drops) {
            let Some(tsn) = dropped.tsn else { continue };
            let Some(places) = sent.get(&(dropped.flow, tsn, dropped.sent)) else {
                continue;
            };
            for &place in places {
                // The chunks of a packet are reported one after the other.
                let end = self.sent[place].end;
                let packet = self.sent[place..]
                    .iter_mut()
                    .take_while(|chunk| chunk.end == end && chunk.at == dropped.sent);
                packet
                    .take(dropped.chunks as usize)
                    .for_each(|chunk| chunk.fate = number);
            }
        }
        // The last sending of each TSN on a path before the sender judged its loss.
        let mut last: BTreeMap<(End, u32), Vec<usize>> = BTreeMap::new();
        for (place, chunk) in self.sent.iter().enumerate() {
            last.entry((chunk.end, chunk.tsn)).or_default().push(place);
        }
        for judged in &mut self.judged {
            let sendings = last.get(&(judged.end, judged.tsn)).map_or(&[][..], Vec::as_slice);
            let before = |chunk: &&Sent| chunk.at <= judged.at && chunk.path == judged.path;
            let judged_sending = sendings.iter().rev().map(|place| &self.sent[*place]).find(|chunk| {
                // A retransmission at the very time of the verdict follows it.
                before(chunk) && !(chunk.again && chunk.at == judged.at)
            });
            judged.drop = judged_sending.map_or(0, |chunk| chunk.fate);
            judged.truth = match judged.drop {
                0 => Truth::Arrived,
                drop if self.drops[drop as usize - 1].congestion => Truth::Congestion,
                _ => Truth::Transmission,
            };
        }
    }

    /// Brings the events of a live transfer into the order of time: several nodes write by turns. Why the network lost a packet is not
    /// known, and a tail-loss probe retransmits what is not known to be lost.
    fn settle_live(&mut self) {
        if let Some(live) = &mut self.live {
            live.sort();
        }
        self.sent.sort_by_key(|event| event.at);
        self.acked.sort_by_key(|event| event.at);
        self.lost.sort_by_key(|event| event.at);
        self.judged.sort_by_key(|event| event.at);
        self.changes.sort_by_key(|event| event.at);
        self.judged.iter_mut().for_each(|judged| judged.truth = Truth::Unknown);
        let words = self.words.list();
        self.lost.retain(|lost| words[lost.rule] != "tail_probe");
    }

    /// Whether the sender erred: it took a loss by transmission for congestion or the other way round, or judged what was not lost.
    pub(crate) fn is_wrong(&self, judged: &Judged) -> bool {
        let verdict = self.words.list()[judged.verdict].as_str();
        match judged.truth {
            Truth::Unknown => false,
            Truth::Arrived => true,
            Truth::Congestion => verdict == "transmission",
            Truth::Transmission => verdict == "congestion",
        }
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "no next hop" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn read(lines: &str) -> Events {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(lines.as_bytes()).expect("writable");
        Events::read(file.path()).expect("events")
    }

    fn sent(time: f64, tsn: u32, again: bool) -> String {
        format!(
            "{{\"data\":{{\"length\":1452,\"path\":0,\"retransmission\":{again},\"tsn\":{tsn}}},\"flow\":\"f\",\"name\":\"transport:tsn_sent\",\
             \"node\":\"a\",\"time\":{time}}}\n"
        )
    }

    fn dropped(time: f64, sent: f64, tsn: u32, chunks: u32, congestion: bool) -> String {
        format!(
            "{{\"data\":{{\"congestion\":{congestion},\"data_chunks\":{chunks},\"forward\":true,\"length\":1500,\"link\":\"l\",\"number\":1,\
             \"sent\":{sent},\"trigger\":\"queue-full\",\"tsn\":{tsn}}},\"flow\":\"f\",\"name\":\"network:packet_dropped\",\"node\":\"a\",\
             \"time\":{time}}}\n"
        )
    }

    fn judged(time: f64, tsn: u32, verdict: &str) -> String {
        format!(
            "{{\"data\":{{\"congestion_window\":3000,\"congestion_window_before\":6000,\"episode\":1,\"path\":0,\"trigger\":\"gap\",\"tsn\":{tsn},\
             \"verdict\":\"{verdict}\"}},\"flow\":\"f\",\"name\":\"recovery:loss_judged\",\"node\":\"a\",\"time\":{time}}}\n"
        )
    }

    #[test]
    fn every_chunk_of_a_dropped_packet_is_lost() {
        let lines = [
            sent(1.0, 7, false),
            sent(1.0, 8, false),
            sent(1.0, 9, false),
            dropped(2.0, 1.0, 8, 2, true),
        ];
        let events = read(&lines.concat());
        let fates: Vec<u32> = events.sent.iter().map(|chunk| chunk.fate).collect();
        assert_eq!(fates, [0, 1, 1]);
    }

    #[test]
    fn verdicts_are_compared_with_what_killed_the_packet() {
        let lines = [
            sent(1.0, 7, false),
            sent(1.0, 8, false),
            sent(1.0, 9, false),
            dropped(2.0, 1.0, 7, 1, true),
            dropped(2.0, 1.0, 8, 1, false),
            judged(3.0, 7, "transmission"),
            judged(3.0, 8, "transmission"),
            judged(3.0, 9, "congestion"),
        ];
        let events = read(&lines.concat());
        let truths: Vec<Truth> = events.judged.iter().map(|judged| judged.truth).collect();
        assert_eq!(truths, [Truth::Congestion, Truth::Transmission, Truth::Arrived]);
        let wrong: Vec<bool> = events.judged.iter().map(|judged| events.is_wrong(judged)).collect();
        assert_eq!(wrong, [true, false, true]);
    }

    #[test]
    fn the_sending_before_a_verdict_counts_and_not_its_retransmission() {
        let lines = [
            sent(1.0, 7, false),
            dropped(2.0, 1.0, 7, 1, true),
            judged(3.0, 7, "congestion"),
            sent(3.0, 7, true),
            judged(5.0, 7, "congestion"),
        ];
        let events = read(&lines.concat());
        let truths: Vec<Truth> = events.judged.iter().map(|judged| judged.truth).collect();
        assert_eq!(truths, [Truth::Congestion, Truth::Arrived]);
    }

    #[test]
    fn lines_that_are_no_events_are_left_out() {
        let events = read(&format!("{{\"cut\": tr\n{}", sent(1.0, 7, false)));
        assert_eq!(events.sent.len(), 1);
    }
}
