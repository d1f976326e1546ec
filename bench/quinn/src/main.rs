//! One transfer over quinn: `server ADDRESS`, or `client ADDRESS BYTES CONTROL`, which prints the seconds from the connection to
//! the server's answer. Certificates are not checked: both ends are on one machine.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Accepts every certificate.
#[derive(Debug)]
struct Unchecked;

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519, SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

fn transport(control: &str) -> Outcome<Arc<TransportConfig>> {
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match control {
        "cubic" => Arc::new(CubicConfig::default()),
        "new-reno" => Arc::new(NewRenoConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        other => return Err(format!("{other}: cubic, new-reno or bbr").into()),
    };
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(factory);
    transport.max_idle_timeout(Some(Duration::from_secs(60).try_into()?));
    Ok(Arc::new(transport))
}

async fn server(address: SocketAddr) -> Outcome {
    let made = rcgen::generate_simple_self_signed(vec!["server".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.key_pair.serialize_der());
    let mut config = ServerConfig::with_single_cert(vec![made.cert.into()], key.into())?;
    config.transport_config(transport("cubic")?);
    let endpoint = Endpoint::server(config, address)?;
    let connection = endpoint.accept().await.ok_or("closed")?.await?;
    let (mut answer, mut data) = connection.accept_bi().await?;
    let mut bytes = 0;
    while let Some(chunk) = data.read_chunk(usize::MAX, true).await? {
        bytes += chunk.bytes.len() as u64;
    }
    answer.write_all(&bytes.to_be_bytes()).await?;
    answer.finish()?;
    connection.closed().await;
    Ok(())
}

async fn client(address: SocketAddr, bytes: u64, control: &str) -> Outcome {
    let crypto = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unchecked))
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    config.transport_config(transport(control)?);
    let mut endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    endpoint.set_default_client_config(config);
    let start = Instant::now();
    let connection = endpoint.connect(address, "server")?.await?;
    let (mut data, mut answer) = connection.open_bi().await?;
    let block = vec![7; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(block.len() as u64);
        data.write_all(&block[..part as usize]).await?;
        left -= part;
    }
    data.finish()?;
    let received = answer.read_to_end(8).await?;
    if received != bytes.to_be_bytes() {
        return Err("the server received another number of bytes".into());
    }
    println!("{bytes} bytes in {} s", start.elapsed().as_secs_f64());
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    // A provider for TLS must be chosen once in a process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let args: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["server", address] => server(address.parse()?).await,
        ["client", address, bytes, control] => client(address.parse()?, bytes.parse()?, control).await,
        _ => Err("server ADDRESS | client ADDRESS BYTES cubic|new-reno|bbr".into()),
    }
}
