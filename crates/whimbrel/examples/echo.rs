//! An echo server and a client in one program, on loopback.
//!
//! `cargo run -p whimbrel --example echo`

use whimbrel::{AssociationError, Listener, Message, Stack, StackConfig};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    for answer in run().await? {
        println!("{answer}");
    }
    Ok(())
}

/// Starts the server, sends three words, and returns what came back.
pub(crate) async fn run() -> Outcome<Vec<String>> {
    let listener = Listener::bind(StackConfig {
        port: 7,
        ..StackConfig::local(["127.0.0.1:0".parse()?])
    })?;
    let addrs = listener.stack().local_addrs().to_vec();
    let server = tokio::spawn(async move {
        let association = listener.accept().await?;
        while let Some(message) = association.recv().await? {
            association.send(Message::new(message.stream, message.data)).await?;
        }
        Ok::<(), AssociationError>(())
    });

    let stack = Stack::bind(StackConfig::local(["127.0.0.1:0".parse()?]))?;
    let association = stack.connect(&addrs, 7).await?;
    let mut answers = Vec::new();
    for word in ["one", "two", "three"] {
        association.send(Message::new(0, word)).await?;
        let answer = association.recv().await?.ok_or("the server ended the association")?;
        answers.push(String::from_utf8(answer.data)?);
    }
    association.shutdown().await?;
    server.await??;
    stack.wait_idle().await;
    Ok(answers)
}
