// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server's start: settings, listener, certificate, and its thread.
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;

use crate::ask::Ask;
use crate::error::PageError;
use crate::hub::Hub;
use crate::users::Users;
use crate::{http, live, tls};

/// The page's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    pub address: SocketAddr,
    /// The users file. A certificate that is made is kept beside it.
    pub users: PathBuf,
    /// Files of a certificate and of its key, as PEM. `None`: one that is made at the first start.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// No HTTPS: on loopback addresses only.
    pub is_plain: bool,
    /// The daemon's socket.
    pub socket: PathBuf,
    /// Name of this host.
    pub host: String,
}

/// A server that is ready to start.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    fingerprint: Option<String>,
    app: Arc<live::App>,
}

impl Server {
    /// Checks all that can be wrong with the settings and their files.
    pub fn check(settings: &Settings) -> Result<(), PageError> {
        Server::read(settings).map(|_| ())
    }

    /// The users, and what TLS needs, with a certificate's fingerprint.
    fn read(settings: &Settings) -> Result<(Users, Option<(TlsAcceptor, String)>), PageError> {
        if settings.is_plain && !settings.address.ip().is_loopback() {
            return Err(PageError::PlainAddress(settings.address));
        }
        let users = Users::read(&settings.users)?;
        let tls = match settings.is_plain {
            true => None,
            false => {
                let beside = |name: &str| settings.users.with_file_name(name);
                let (certificate, key) = settings
                    .certificate
                    .clone()
                    .unwrap_or_else(|| (beside("certificate.pem"), beside("certificate.key.pem")));
                let names = tls::names(&settings.host, settings.address);
                let (config, fingerprint) = tls::configuration(&tls::Files { certificate, key }, &names)?;
                Some((TlsAcceptor::from(config), fingerprint))
            }
        };
        Ok((users, tls))
    }

    /// Checks all that can be wrong, and listens.
    pub fn bind(settings: Settings) -> Result<Server, PageError> {
        let (users, tls) = Server::read(&settings)?;
        let (tls, fingerprint) = tls.unzip();
        let listen = |error| PageError::Listen { address: settings.address, error };
        let listener = TcpListener::bind(settings.address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let hub = Arc::new(Hub::new(Ask::new(settings.socket)));
        let app = live::App::new(settings.users, users, hub, address.port(), tls.is_some());
        Ok(Server { listener, address, tls, fingerprint, app: Arc::new(app) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves on a thread of its own, until the process ends.
    pub fn start(self) -> Result<(), PageError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        log::info!("page: {scheme}://{}/", self.address);
        if let Some(fingerprint) = &self.fingerprint {
            log::info!("page: SHA-256 of its certificate: {fingerprint}");
        }
        let run = async move {
            tokio::spawn(self.app.hub().clone().run());
            match tokio::net::TcpListener::from_std(self.listener) {
                Ok(listener) => http::serve(listener, self.tls, live::router(self.app)).await,
                Err(error) => log::warn!("page: {error}"),
            }
        };
        on_thread(run)
    }
}

/// Runs a future on a thread of its own, with the usual priority: the daemon's is higher.
pub fn on_thread(run: impl Future<Output = ()> + Send + 'static) -> Result<(), PageError> {
    // One hash of a password at a time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(1)
        .build()
        .map_err(PageError::Thread)?;
    let body = move || {
        // Of this thread alone: Linux keeps the nice value by thread.
        let _ = rustix::process::setpriority_process(None, 0);
        runtime.block_on(run);
    };
    std::thread::Builder::new().name("page".into()).spawn(body).map(|_| ()).map_err(PageError::Thread)
}
