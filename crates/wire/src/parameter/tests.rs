use super::*;

fn one(bytes: &[u8]) -> Result<Parameter<'_>, TlvError> {
    let mut parameters = Parameters::from_wire_bytes(bytes).iter();
    let first = parameters.next().expect("one parameter");
    assert_eq!(parameters.next(), None);
    first
}

/// Parses `bytes` as `parameter`, and writes `parameter` as `bytes`.
fn both_ways(bytes: &[u8], parameter: Parameter<'_>) {
    assert_eq!(one(bytes), Ok(parameter));
    let mut out = Vec::new();
    parameter.emit(&mut out);
    assert_eq!(out, bytes);
}

// RFC 9260 §3.3.2.1, §3.3.3.1, §3.3.5; RFC 4960 Appendix A: every parameter field by field.
// [9260:3.2.1-4, 3.2.1-5]
// [9653:4-1]
#[test]
fn every_parameter_on_the_wire() {
    both_ways(&[0, 1, 0, 7, 1, 2, 3], Parameter::HeartbeatInfo(&[1, 2, 3]));
    both_ways(
        &[0, 5, 0, 8, 192, 0, 2, 7],
        Parameter::Ipv4(Ipv4Addr::new(192, 0, 2, 7)),
    );
    both_ways(
        &[0, 6, 0, 20, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        Parameter::Ipv6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    );
    both_ways(&[0, 7, 0, 6, 0xca, 0xfe], Parameter::StateCookie(&[0xca, 0xfe]));
    both_ways(&[0, 8, 0, 8, 0xc0, 1, 0, 4], Parameter::Unrecognized(&[0xc0, 1, 0, 4]));
    both_ways(
        &[0, 9, 0, 8, 0, 0, 0x27, 0x10],
        Parameter::CookiePreservative { increment_ms: 10_000 },
    );
    both_ways(&[0, 11, 0, 8, b'a', b'.', b'b', 0], Parameter::HostName(b"a.b\0"));
    both_ways(
        &[0, 12, 0, 8, 0, 5, 0, 6],
        Parameter::SupportedAddressTypes(NumberList::IPV4_AND_IPV6),
    );
    both_ways(&[0, 12, 0, 6, 0, 6], Parameter::SupportedAddressTypes(NumberList::IPV6));
    both_ways(&[0x80, 0, 0, 4], Parameter::EcnCapable);
    // RFC 9653 §4
    let method = error_detection_method::DTLS;
    both_ways(
        &[0x80, 1, 0, 8, 0, 0, 0, 1],
        Parameter::ZeroChecksumAcceptable { method },
    );
    both_ways(&[0xbe, 1, 0, 4], Parameter::Timestamps);
    both_ways(&[0xbe, 2, 0, 4], Parameter::EciCapable);
    both_ways(&[0xbe, 3, 0, 4], Parameter::NewGaps);
    both_ways(&[0xbe, 4, 0, 4], Parameter::RepeatedTimestamps);
    // RFC 3758 §3.1
    both_ways(&[0xc0, 0, 0, 4], Parameter::ForwardTsnSupported);
    // RFC 4895 §3
    both_ways(&[0x80, 2, 0, 7, 1, 2, 3], Parameter::Random(&[1, 2, 3]));
    both_ways(&[0x80, 3, 0, 6, 0xc1, 0x80], Parameter::ChunkList(&[0xc1, 0x80]));
    both_ways(
        &[0x80, 4, 0, 8, 0, 3, 0, 1],
        Parameter::HmacAlgorithms(NumberList::from_wire_bytes(&[0, 3, 0, 1])),
    );
    // RFC 5061 §4.2
    both_ways(
        &[0x80, 0x08, 0, 6, 0x82, 0xc0],
        Parameter::SupportedExtensions(&[0x82, 0xc0]),
    );
    let (correlation, address) = (0x0102_0304, IpAddr::from([10, 0, 0, 9]));
    let request = |kind: u8| [0xc0, kind, 0, 16, 1, 2, 3, 4, 0, 5, 0, 8, 10, 0, 0, 9];
    both_ways(&request(1), Parameter::AddIp { correlation, address });
    both_ways(&request(2), Parameter::DeleteIp { correlation, address });
    both_ways(&request(4), Parameter::SetPrimary { correlation, address });
    both_ways(
        &[0xc0, 3, 0, 12, 1, 2, 3, 4, 0, 0xa0, 0, 4],
        Parameter::ErrorCauseIndication {
            correlation,
            causes: Causes::from_wire_bytes(&[0, 0xa0, 0, 4]),
        },
    );
    both_ways(&[0xc0, 5, 0, 8, 1, 2, 3, 4], Parameter::Success { correlation });
    both_ways(
        &[0xc0, 6, 0, 8, 0, 0, 0, 7],
        Parameter::AdaptationLayer { indication: 7 },
    );
    let raw = [0x80, 0x05, 0, 6, 0x82, 0xc0]; // Padding, RFC 4820
    both_ways(
        &raw,
        Parameter::Unknown(RawParameter::from_bytes(&raw).expect("length agrees")),
    );
}

// draft-ietf-tsvwg-sctp-dtls-chunk, "DTLS Key Management Parameter"
// [dtls:4.1-1, 4.1-2, 4.1-3]
#[test]
fn dtls_key_management_on_the_wire() {
    let offer = |restart, server, client, methods| {
        Parameter::DtlsKeyManagement(KeyManagement {
            tie_breaker: 0x0102_0304,
            restart,
            server,
            client,
            methods,
        })
    };
    both_ways(&[0x80, 6, 0, 10, 1, 2, 3, 4, 3, 0], offer(false, true, true, &[0]));
    both_ways(
        &[0x80, 6, 0, 11, 1, 2, 3, 4, 4, 192, 0],
        offer(true, false, false, &[192, 0]),
    );
    both_ways(&[0x80, 6, 0, 10, 1, 2, 3, 4, 2, 9], offer(false, true, false, &[9]));
    // The reserved bits are ignored.
    let reserved = [0x80, 6, 0, 10, 1, 2, 3, 4, 0xf9, 9];
    assert_eq!(one(&reserved), Ok(offer(false, false, true, &[9])));
}

// RFC 6525 §4
// [6525:4.1-1, 4.2-1, 4.3-1, 4.4-1, 4.4-2, 4.5-1, 4.5-2, 4.6-1, 4.6-2]
#[test]
fn every_parameter_of_re_config_on_the_wire() {
    let request = 0x0102_0304;
    both_ways(
        &[0, 13, 0, 20, 1, 2, 3, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 1, 0, 9],
        Parameter::OutgoingReset {
            request,
            response: 5,
            last_tsn: Tsn(6),
            streams: NumberList::from_wire_bytes(&[0, 1, 0, 9]),
        },
    );
    both_ways(
        &[0, 14, 0, 10, 1, 2, 3, 4, 0, 7],
        Parameter::IncomingReset {
            request,
            streams: NumberList::from_wire_bytes(&[0, 7]),
        },
    );
    both_ways(&[0, 15, 0, 8, 1, 2, 3, 4], Parameter::TsnReset { request });
    let response = |next_tsns| Parameter::ReconfigResponse {
        response: request,
        result: reconfig_result::IN_PROGRESS,
        next_tsns,
    };
    both_ways(&[0, 16, 0, 12, 1, 2, 3, 4, 0, 0, 0, 6], response(None));
    both_ways(
        &[0, 16, 0, 20, 1, 2, 3, 4, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 8],
        response(Some((Tsn(7), Tsn(8)))),
    );
    let count = 3;
    both_ways(
        &[0, 17, 0, 12, 1, 2, 3, 4, 0, 3, 0, 0],
        Parameter::AddOutgoingStreams { request, count },
    );
    both_ways(
        &[0, 18, 0, 12, 1, 2, 3, 4, 0, 3, 0, 0],
        Parameter::AddIncomingStreams { request, count },
    );
    // The reserved bytes are ignored.
    for (code, parameter) in [
        (17, Parameter::AddOutgoingStreams { request, count }),
        (18, Parameter::AddIncomingStreams { request, count }),
    ] {
        let list = [0, code, 0, 12, 1, 2, 3, 4, 0, 3, 0xab, 0xcd];
        assert_eq!(Parameters::from_wire_bytes(&list).iter().next(), Some(Ok(parameter)));
    }
}

// [dtls:4.1-4]
#[test]
fn a_value_of_the_wrong_size_does_not_end_the_list() {
    let list = [
        &[0, 5, 0, 7, 1, 2, 3, 0][..],             // three bytes of IPv4 address
        &[0, 6, 0, 8, 1, 2, 3, 4],                 // four of IPv6
        &[0, 9, 0, 6, 1, 2, 0, 0],                 // two of cookie preservative
        &[0, 12, 0, 5, 1, 0, 0, 0],                // half an address type
        &[0x80, 0, 0, 8, 0, 0, 0, 0],              // ECN capable with a value
        &[0xbe, 1, 0, 8, 0, 0, 0, 0],              // timestamps with a value
        &[0xbe, 2, 0, 8, 0, 0, 0, 0],              // ECI capable with a value
        &[0x80, 4, 0, 5, 1, 0, 0, 0],              // half an HMAC identifier
        &[0xc0, 1, 0, 8, 0, 0, 0, 1],              // an address to be added is missing
        &[0xc0, 2, 0, 12, 0, 0, 0, 1, 0, 7, 0, 4], // no address
        &[0xc0, 4, 0, 6, 0, 0, 0, 0],              // half a correlation identifier
        &[0xc0, 3, 0, 6, 0, 0, 0, 0],
        &[0xc0, 5, 0, 4],
        &[0xc0, 6, 0, 4],
        &[0xbe, 3, 0, 8, 0, 0, 0, 0],             // new gaps with a value
        &[0x80, 6, 0, 9, 1, 2, 3, 4, 3, 0, 0, 0], // key management without a method
        &[0x80, 0, 0, 4],
    ]
    .concat();
    let read: Vec<_> = Parameters::from_wire_bytes(&list).iter().collect();
    let bad = |tlv_type, value_len| Err(TlvError::BadValue { tlv_type, value_len });
    assert_eq!(
        read,
        [
            bad(5, 3),
            bad(6, 4),
            bad(9, 2),
            bad(12, 1),
            bad(0x8000, 4),
            bad(0xbe01, 4),
            bad(0xbe02, 4),
            bad(0x8004, 1),
            bad(0xc001, 4),
            bad(0xc002, 8),
            bad(0xc004, 2),
            bad(0xc003, 2),
            bad(0xc005, 0),
            bad(0xc006, 0),
            bad(0xbe03, 4),
            bad(0x8006, 5),
            Ok(Parameter::EcnCapable)
        ]
    );
}

// RFC 9260 §3.2.1: the two highest bits of the type.
#[test]
fn what_to_do_with_unknown_types() {
    let action = |t: u16| {
        let [t0, t1] = t.to_be_bytes();
        let bytes = [t0, t1, 0, 4];
        RawParameter::from_bytes(&bytes).expect("length agrees").action()
    };
    assert_eq!(action(0x3fff), UnknownAction::Stop);
    assert_eq!(action(0x7fff), UnknownAction::StopAndReport);
    assert_eq!(action(0x8001), UnknownAction::Skip);
    assert_eq!(action(0xc000), UnknownAction::SkipAndReport);
}

// §3.2.2: a report contains the parameter exactly as received, known or not.
#[test]
fn raw_bytes_of_every_parameter_can_be_reported() {
    let list = [0xc0, 1, 0, 5, 9, 0, 0, 0, 0, 11, 0, 5, b'h'];
    let mut report = Vec::new();
    for raw in Parameters::from_wire_bytes(&list).raw() {
        Parameter::Unrecognized(raw.expect("lengths are right").bytes()).emit(&mut report);
    }
    assert_eq!(
        report,
        [0, 8, 0, 9, 0xc0, 1, 0, 5, 9, 0, 0, 0, 0, 8, 0, 9, 0, 11, 0, 5, b'h']
    );
}

#[test]
fn finds_the_cookie() {
    let list = [0x80, 0, 0, 4, 0, 7, 0, 5, 42];
    assert_eq!(Parameters::from_wire_bytes(&list).state_cookie(), Some(&[42][..]));
    assert_eq!(Parameters::from_wire_bytes(&list[..4]).state_cookie(), None);
}
