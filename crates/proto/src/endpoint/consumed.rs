//! State cookies that have been consumed. A cookie is valid for its whole life, so a recorded COOKIE ECHO could open an association again
//! after the first one has ended, with the same tags and keys, and the recorded packets of the first one would be accepted once more.
//! RFC 9260 §5.3.1 requires new tags for a new association: a tag is used once.
//!
//! With DTLS chunks, this also keeps a nonce from being used twice. The keys are derived from what the cookie contains, and the sequence numbers
//! begin with 0: this end would encrypt other content with the nonces of the first association, which reveals both contents and breaks the
//! authentication of AES-GCM (RFC 5116 §5.1.1). A cookie that cannot be remembered is therefore refused with DTLS chunks, and with
//! RFC 4895; without keys the association is opened all the same.
//!
//! Half of the room is a reserve for cookies with a key: see [`ConsumedCookies::has_room`] for what that protects.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use whimbrel_control::Time;

use super::cookie::Cookie;
use super::table::TagHasher;

/// The local tags of consumed cookies, each until its cookies are stale. A remembered tag is never forgotten earlier: without room, the
/// cookie is refused instead.
#[derive(Debug, Default)]
pub(super) struct ConsumedCookies {
    /// When the last cookie with this tag becomes stale.
    stale: HashMap<u32, Time, BuildHasherDefault<TagHasher>>,
    /// Each tag once, with the time at which it is looked at next, in the order of insertion. A late one delays those behind it.
    queue: VecDeque<(Time, u32)>,
}

impl ConsumedCookies {
    /// Returns whether a cookie with this local tag has been consumed.
    pub(super) fn has(&self, local_tag: u32) -> bool {
        self.stale.contains_key(&local_tag)
    }

    /// Returns whether a further cookie can be remembered, if at most `limit` are. Cookies without a key (`keyed`: RFC 4895 with a shared key, or DTLS
    /// chunks) leave half of the room to those with one. With RFC 4895, the COOKIE ECHO has been authenticated before: hosts without the key
    /// cannot keep out hosts with it. With DTLS chunks it shows no key: the reserve keeps associations without encryption from taking all of
    /// the room, but a host without the secret can fill it, from addresses at which it receives the INIT ACK.
    pub(super) fn has_room(&mut self, now: Time, limit: usize, keyed: bool) -> bool {
        self.forget_stale(now);
        self.stale.len() < if keyed { limit } else { limit / 2 }
    }

    fn forget_stale(&mut self, now: Time) {
        while let Some(&(due, tag)) = self.queue.front()
            && due < now
        {
            self.queue.pop_front();
            match self.stale.get(&tag) {
                Some(&stale) if stale >= now => self.queue.push_back((stale, tag)),
                _ => {
                    self.stale.remove(&tag);
                }
            }
        }
        if self.queue.is_empty() {
            // A burst of associations leaves no memory behind.
            *self = ConsumedCookies::default();
        }
    }

    /// Remembers a consumed cookie. The caller has asked for room.
    pub(super) fn insert(&mut self, cookie: &Cookie) {
        let (tag, stale) = (cookie.local_tag, cookie.created + cookie.life);
        match self.stale.get_mut(&tag) {
            Some(known) => *known = stale.max(*known),
            None => {
                self.stale.insert(tag, stale);
                self.queue.push_back((stale, tag));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::Span;

    use super::super::cookie::tests::cookie;
    use super::*;

    fn consumed(tag: u32, created: u64, life: u64) -> Cookie {
        Cookie {
            local_tag: tag,
            created: Time::from_nanos(created),
            life: Span::from_nanos(life),
            ..cookie()
        }
    }

    #[test]
    fn a_tag_is_remembered_until_its_last_cookie_is_stale() {
        let mut cookies = ConsumedCookies::default();
        cookies.insert(&consumed(1, 0, 100));
        cookies.insert(&consumed(2, 10, 100));
        // An INIT collision: another cookie with the tag of the first one.
        cookies.insert(&consumed(1, 100, 100));
        for (now, expected) in [
            (100, [true, true]),
            (110, [true, true]),
            (111, [true, false]),
            (200, [true, false]),
            (201, [false, false]),
        ] {
            cookies.has_room(Time::from_nanos(now), 2, true);
            assert_eq!([cookies.has(1), cookies.has(2)], expected, "at {now}");
        }
        assert_eq!(cookies.stale.capacity() + cookies.queue.capacity(), 0);
    }

    #[test]
    fn cookies_without_a_key_fill_half_of_the_room() {
        let mut cookies = ConsumedCookies::default();
        let now = Time::from_nanos(1);
        for (tag, keyed) in [(0, false), (1, false), (2, true), (3, true)] {
            assert!(cookies.has_room(now, 4, keyed), "{tag}");
            cookies.insert(&consumed(tag, 0, 100));
            assert!(tag == 0 || !cookies.has_room(now, 4, false), "{tag}");
        }
        assert!(!cookies.has_room(now, 4, true));
    }
}
