//! Random transfers whose streams change again and again.

use super::*;

/// A message of a random transfer: the number of its stream's reset, and its own.
fn generation_of(content: &[u8]) -> (u32, u32) {
    let number = number_of(content);
    (number >> 16, number & 0xffff)
}

/// Messages with losses, give-ups and any scheduler, while streams are reset again and again: messages arrive in the order of their
/// stream, those from before a reset are read before the notification, and those from after it later.
#[test]
fn resets_separate_the_messages_of_random_transfers() {
    for seed in crate::random_messages::seeds(200) {
        let mut rng = Rng::stream(seed, "stream changes");
        let paths = 1 + rng.below(2) as usize;
        let own = AssociationConfig {
            interleaving: rng.chance(0.5),
            partial_reliability: rng.chance(0.5),
            scheduler: Scheduler::ALL[rng.below(6) as usize],
            recv_buffer: [100_000, 9000][rng.below(2) as usize],
            outbound_streams: 4,
            path_max_retrans: 20,
            association_max_retrans: 60,
            ..config()
        };
        let mut net = Net::with_config(paths, &own, seed);
        let a = net.connect(&own, paths);
        net.run_for(Span::from_secs(1));
        let b = net.only(Host::B);
        crate::random_messages::disturb(&mut net, seed, 0.15 * rng.unit());
        let (mut generations, mut sent) = ([0_u32; 4], Vec::new());
        for number in 0..150_u32 {
            let stream = rng.below(4) as u16;
            if rng.chance(0.15) {
                let list = if rng.chance(0.2) {
                    StreamList::ALL
                } else {
                    some(&[stream])
                };
                let now = net.now;
                let wish = StreamChange::ResetOutbound(list.clone());
                if net.a.change_streams(now, a, wish).is_ok() {
                    (0..4)
                        .filter(|&stream| list.contains(stream))
                        .for_each(|stream| generations[usize::from(stream)] += 1);
                }
            }
            let content = generations[usize::from(stream)] << 16 | number;
            let most = [100, 1500, 6000][rng.below(3) as usize];
            let len = 4 + rng.below(most) as usize;
            let is_limited = own.partial_reliability && rng.chance(0.3);
            let limit = if is_limited {
                Reliability::Lifetime(Span::from_millis(rng.below(300)))
            } else {
                Reliability::Full
            };
            let message = Message {
                stream,
                unordered: rng.chance(0.2),
                ..numbered(content, len, limit)
            };
            let now = net.now;
            if net.a.send(now, a, message.clone()).is_ok() {
                sent.push((stream, content, limit));
            }
            net.auto_read = rng.chance(0.7);
            if net.auto_read {
                net.read(Host::B, b);
            }
            net.drain(Host::A);
            net.run_for(Span::from_millis(rng.below(40)));
        }
        net.auto_read = true;
        for second in 0..400 {
            if second == 20 {
                net.filter = Box::new(|_| Fate::Deliver);
            }
            net.read(Host::B, b);
            net.drain(Host::B);
            net.run_for(Span::from_secs(1));
            if net.changes_of(Host::A).len() == net.changes_of(Host::B).len()
                && net.a.association(a).unwrap().buffered_send() == 0
            {
                break;
            }
        }
        // The last FORWARD TSN may not have arrived.
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(150));
        assert_eq!(net.state(Host::A, a), State::Established, "{seed}");
        assert_generations(&net, seed, generations, &sent);
        nothing_is_held(&net, a, b);
    }
}

fn assert_generations(net: &Net, seed: u64, last: [u32; 4], sent: &[(u16, u32, Reliability)]) {
    let mut generations = [0_u32; 4];
    let mut changes = net.changes_of(Host::B).into_iter().peekable();
    let mut ordered = [None; 4];
    let mut read_all = Vec::new();
    for (read, (stream, unordered, content)) in net.messages[&Host::B].iter().enumerate() {
        while let Some((_, change)) = changes.next_if(|(before, _)| *before <= read) {
            let StreamChange::ResetInbound(list) = change else {
                panic!("{change:?}")
            };
            (0..4)
                .filter(|&stream| list.contains(stream))
                .for_each(|stream| generations[usize::from(stream)] += 1);
        }
        let stream = usize::from(*stream);
        let (generation, number) = generation_of(content);
        assert_eq!(
            generation, generations[stream],
            "{seed}: message {number} of stream {stream}"
        );
        if !unordered {
            assert!(ordered[stream].replace(number) < Some(number), "{seed}");
        }
        read_all.push(number_of(content));
    }
    for (_, change) in changes {
        let StreamChange::ResetInbound(list) = change else {
            panic!("{change:?}")
        };
        (0..4)
            .filter(|&stream| list.contains(stream))
            .for_each(|stream| generations[usize::from(stream)] += 1);
    }
    assert_eq!(generations, last, "{seed}");
    for (_, content, limit) in sent {
        let times = read_all.iter().filter(|read| *read == content).count();
        assert!(
            times == 1 || times == 0 && *limit != Reliability::Full,
            "{seed}: {content} {times}"
        );
    }
}

/// Both ends ask each other for any change, and read now and then. Nothing is left to ask for once all has been read.
#[test]
fn no_request_outlives_what_it_asks_for() {
    for seed in crate::random_messages::seeds(60) {
        for hb_interval in [Span::ZERO, Span::from_secs(30)] {
            let mut rng = Rng::stream(seed, "requests");
            let own = AssociationConfig {
                outbound_streams: 4,
                max_outbound_streams: Some(200),
                interleaving: rng.chance(0.3),
                recv_buffer: 20_000,
                hb_interval,
                ..config()
            };
            let (mut net, a, b) = ask_at_random(&own, seed, &mut rng);
            net.auto_read = true;
            for _ in 0..400 {
                read_all(&mut net, a, b);
                net.run_for(Span::from_secs(1));
            }
            let closed = (net.close_reason(Host::A), net.close_reason(Host::B));
            assert_eq!(closed, (None, None), "seed {seed}");
            let sent = |net: &Net| [Host::A, Host::B].map(|host| net.count(host, ChunkType::RE_CONFIG));
            let before = sent(&net);
            net.run_for(Span::from_secs(3600));
            assert_eq!(sent(&net), before, "seed {seed} asks on");
            for (host, id) in [(Host::A, a), (Host::B, b)] {
                let now = net.now;
                let again = net
                    .host(host)
                    .change_streams(now, id, StreamChange::ResetInbound(StreamList::ALL));
                assert_eq!(again, Ok(()), "seed {seed}");
            }
        }
    }
}

fn ask_at_random(own: &AssociationConfig, seed: u64, rng: &mut Rng) -> (Net, AssocId, AssocId) {
    let mut net = Net::with_config(1, own, seed);
    let a = net.connect(own, 1);
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    for number in 0..80 {
        for (host, id) in [(Host::A, a), (Host::B, b)] {
            let stream = rng.below(4) as u16;
            let len = 4 + rng.below(100) as usize;
            let now = net.now;
            if rng.chance(0.25) {
                let list = some(&[stream]);
                let wish = match rng.below(4) {
                    0 => StreamChange::ResetInbound(list),
                    1 => StreamChange::AddInbound(1),
                    2 => StreamChange::AddOutbound(1),
                    _ => StreamChange::ResetOutbound(list),
                };
                let _ = net.host(host).change_streams(now, id, wish);
            }
            let _ = net.host(host).send(now, id, on(stream, number, len));
            net.drain(host);
        }
        net.auto_read = rng.chance(0.3);
        if net.auto_read {
            read_all(&mut net, a, b);
        }
        net.run_for(Span::from_millis(rng.below(40_000)));
    }
    (net, a, b)
}
