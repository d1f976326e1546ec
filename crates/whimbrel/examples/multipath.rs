//! A transfer over two paths at once, on loopback: the scheme `multipath` uses the capacity of all paths.
//!
//! `cargo run --release -p whimbrel --example multipath`

use whimbrel::{
    AssociationConfig, AssociationError, DistributionSpec, Listener, Message, PathInfo, Scheme, Stack, StackConfig,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const MESSAGES: usize = 400;
const MESSAGE_BYTES: usize = 16 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let (received, paths) = run().await?;
    println!("{received} bytes received");
    for path in paths {
        let rate = path
            .quality
            .delivery_rate
            .map_or("-".to_owned(), |rate| rate.to_string());
        println!(
            "path {}: {} -> {}, delivery rate {rate}",
            path.id, path.local, path.remote
        );
    }
    Ok(())
}

fn config(addrs: [&str; 2]) -> Outcome<StackConfig> {
    let association = AssociationConfig {
        scheme: Scheme::by_name("multipath").ok_or("there is no scheme multipath")?,
        // On loopback the first path alone is fast enough, and the scheme's own distribution would leave it at that.
        distribution: Some(DistributionSpec::RoundRobin(Default::default())),
        ..StackConfig::default().association
    };
    Ok(StackConfig {
        association,
        ..StackConfig::local([addrs[0].parse()?, addrs[1].parse()?])
    })
}

/// Returns the bytes received, and the sender's paths at the end.
pub(crate) async fn run() -> Outcome<(usize, Vec<PathInfo>)> {
    let listener = Listener::bind(config(["127.0.0.1:0", "127.0.0.2:0"])?)?;
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let server = tokio::spawn(async move {
        let association = listener.accept().await?;
        let (mut received, mut message) = (0, Vec::new());
        while association.recv_into(&mut message).await?.is_some() {
            received += message.len();
        }
        Ok::<usize, AssociationError>(received)
    });

    let stack = Stack::bind(config(["127.0.0.3:0", "127.0.0.4:0"])?)?;
    let association = stack.connect(&addrs, port).await?;
    for _ in 0..MESSAGES {
        association.send(Message::new(0, vec![7; MESSAGE_BYTES])).await?;
    }
    association.flush().await?;
    let paths = association.paths();
    association.shutdown().await?;
    let received = server.await??;
    stack.wait_idle().await;
    Ok((received, paths))
}
