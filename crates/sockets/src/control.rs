//! Requests of the program to the service, and their answers: a record each, on a connection of its own.

/// Bytes of the head of a request or an answer.
pub(crate) const HEAD: usize = 16;
/// Bytes of the secret that follows the head of each request: only the process of the service and its children know it.
pub(crate) const SECRET: usize = 16;
/// Bytes of a request or an answer at most, head and secret included.
pub(crate) const MAX: usize = 32 << 10;
/// Bytes of the body of a request at most.
pub(crate) const MAX_BODY: usize = MAX - HEAD - SECRET;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// A new socket: `a` = address family, `b` = type. The answer has its descriptor, and its number as the value.
    Open = 1,
    /// Binds to the addresses in the body. `a`: 0 = `bind`, otherwise the flag of `sctp_bindx`.
    Bind,
    /// Listens, with the backlog `a`.
    Listen,
    /// Connects to the addresses in the body, and waits for that if `a` is 1. The value of the answer is the association.
    Connect,
    /// Sets option `b` of level `a` to the body.
    Set,
    /// Returns option `b` of level `a`; the body is what the program has passed in.
    Get,
    /// Returns the local (`a` = 0) or the peer's (1) address.
    Name,
    /// Returns the local (`a` = 0) or the peer's (1) addresses of association `b` as a packed list, and their number as the value.
    Addresses,
    /// Makes a socket of association `a`, as `Open`.
    Peel,
    /// The program is about to end: answers when all associations have ended. Only for the process of the service.
    Finish,
}

impl Op {
    fn from_number(number: u32) -> Option<Op> {
        let all = [
            Op::Open,
            Op::Bind,
            Op::Listen,
            Op::Connect,
            Op::Set,
            Op::Get,
            Op::Name,
            Op::Addresses,
            Op::Peel,
            Op::Finish,
        ];
        all.into_iter().find(|op| *op as u32 == number)
    }
}

/// The head of a request. `socket` is the number of the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) op: Op,
    pub(crate) socket: u32,
    pub(crate) a: i32,
    pub(crate) b: i32,
}

/// The head of an answer: an errno or 0, and a value. `reading` is what the program's half has to know of the options: bits of [`reading`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) errno: i32,
    pub(crate) value: i32,
    pub(crate) reading: u32,
}

/// Ancillary data that a reader gets.
pub(crate) mod reading {
    /// SCTP_SNDRCV (RFC 6458 §5.3.2).
    pub(crate) const SNDRCV: u32 = 1;
    /// SCTP_RCVINFO (RFC 6458 §5.3.5).
    pub(crate) const RCVINFO: u32 = 2;
}

fn words(bytes: &[u8]) -> Option<[u32; 4]> {
    let bytes = bytes.get(..HEAD)?;
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Some([word(0), word(4), word(8), word(12)])
}

fn pack(words: [u32; 4]) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

impl Request {
    pub(crate) fn encode(self) -> [u8; HEAD] {
        pack([
            self.op as u32,
            self.socket,
            self.a.cast_unsigned(),
            self.b.cast_unsigned(),
        ])
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Request> {
        let [op, socket, a, b] = words(bytes)?;
        Some(Request {
            op: Op::from_number(op)?,
            socket,
            a: a.cast_signed(),
            b: b.cast_signed(),
        })
    }
}

impl Answer {
    pub(crate) fn encode(self) -> [u8; HEAD] {
        pack([self.errno.cast_unsigned(), self.value.cast_unsigned(), self.reading, 0])
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Answer> {
        let [errno, value, reading, _] = words(bytes)?;
        Some(Answer {
            errno: errno.cast_signed(),
            value: value.cast_signed(),
            reading,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_encoding() {
        for op in [Op::Open, Op::Finish] {
            let request = Request {
                op,
                socket: 7,
                a: -1,
                b: 132,
            };
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        let answer = Answer {
            errno: 111,
            value: -3,
            reading: reading::SNDRCV,
        };
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        assert_eq!(Request::decode(&[0; HEAD]), None);
        assert_eq!(Request::decode(&[]), None);
    }
}
