//! Checks requirements of all tests before anything is built. Requirements of single tests are checked by those tests.

use std::net::UdpSocket;
use std::time::Duration;

use crate::chore::Outcome;

/// Checks the machine.
pub(crate) fn check() -> Outcome {
    let folder = std::env::temp_dir();
    tempfile::tempdir_in(&folder).map_err(|error| {
        format!(
            "the tests write into the folder for temporary files, {}, and cannot: {error}; TMPDIR may name another one",
            folder.display()
        )
    })?;
    loopback().map_err(|error| {
        format!("the tests exchange UDP packets over 127.0.0.1 and cannot: {error}; is the loopback interface up?")
    })
}

/// Sends a UDP packet to a socket of this process.
fn loopback() -> std::io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    socket.send_to(b"?", socket.local_addr()?)?;
    socket.recv(&mut [0; 1]).map(|_| ())
}

#[cfg(test)]
mod tests {
    #[test]
    fn accepts_the_machine_that_runs_this_test() {
        assert_eq!(super::check(), Ok(()));
    }
}
