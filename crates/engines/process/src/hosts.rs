// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The processes of other hosts ([`selvedge_net::remote_hosts`]), and links to them by the settings of this process and
//! its launcher.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use selvedge_net::remote_hosts::{LookUp, Names, RemoteHosts};
use selvedge_net::{OpenError, Progress};
use selvedge_os::sync::IgnorePoison;

use crate::place::job_spans_hosts;
use crate::settings::HostSettings;

/// Reasons for which a process cannot reach other hosts.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    #[error(transparent)]
    Links(#[from] selvedge_net::OpenError),
    #[error("SELVEDGE_NET_INTERFACE={wanted} is no interface or address of this host, which has {have}")]
    NoInterface { wanted: String, have: String },
    #[error("only the loopback interface of this host is up; bring another one up, or set SELVEDGE_NET_INTERFACE")]
    OnlyLoopback,
    #[error("SELVEDGE_SECRET is not made of pairs of hexadecimal digits")]
    Secret,
    #[error(transparent)]
    Faults(#[from] selvedge_net::FaultsError),
    #[error("cannot list the interfaces of this host: {0}")]
    System(#[from] std::io::Error),
}

/// Opens the links of this process in a job. `nid` is the number of its host there.
pub fn of_job(settings: &HostSettings, nid: u32, look_up: LookUp) -> Result<Arc<RemoteHosts>, HostsError> {
    open(settings, Some(nid), settings.progress, Names::of_job(look_up))
}

/// Returns the links of this process's message transports. None if there are none: the job is on one host, the user
/// wants none, or they cannot be opened, which was reported. A lack of a local resource is not kept: the next call tries
/// again.
pub fn of_transports() -> Option<Arc<RemoteHosts>> {
    static OPENED: Mutex<Option<Option<Arc<RemoteHosts>>>> = Mutex::new(None);
    let mut opened = OPENED.lock().ignore_poison();
    if opened.is_none() {
        *opened = match open_for_transports() {
            Err(HostsError::Links(OpenError::Shortage(shortage))) => {
                shortage.report();
                return None;
            }
            links => {
                let links = links.inspect_err(|error| log::warn!("processes of other hosts are out of reach: {error}"));
                Some(links.unwrap_or(None))
            }
        };
    }
    opened.clone().flatten()
}

fn open_for_transports() -> Result<Option<Arc<RemoteHosts>>, HostsError> {
    let settings = HostSettings::from_environment();
    let spans_hosts = job_spans_hosts();
    if !are_wanted(settings.reach, spans_hosts) {
        return Ok(None);
    }
    // Without a launcher most processes never use a link, so the progress thread starts late.
    let is_sure = settings.reach == Some(true) || spans_hosts == Some(true);
    let progress = match settings.progress {
        Progress::Thread if !is_sure => Progress::ThreadLater,
        progress => progress,
    };
    open(&settings, None, progress, Names::AsMet).map(Some)
}

/// Opens links of this process to aggregation nodes ([`HostSettings::of_aggregation`]).
pub fn of_aggregation(settings: &HostSettings) -> Result<Arc<RemoteHosts>, HostsError> {
    open(settings, None, settings.progress, Names::AsMet)
}

/// Whether this process's message transports should have links, as far as is known without opening any.
pub fn wanted_by_transports() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| are_wanted(HostSettings::from_environment().reach, job_spans_hosts()))
}

fn open(
    settings: &HostSettings,
    nid: Option<u32>,
    progress: Progress,
    names: Names,
) -> Result<Arc<RemoteHosts>, HostsError> {
    let hosts = RemoteHosts::open(link_settings(settings, nid, progress)?, names)?;
    close_at_exit(&hosts);
    Ok(hosts)
}

/// Returns the settings of links of this process. `nid`: the number of its host in a job that numbers hosts.
pub fn link_settings(
    settings: &HostSettings,
    nid: Option<u32>,
    progress: Progress,
) -> Result<selvedge_net::Settings, HostsError> {
    Ok(selvedge_net::Settings {
        at: own_address(settings)?,
        provider: settings.provider.clone(),
        secret: settings.secret.clone().ok_or(HostsError::Secret)?,
        nid,
        check: settings.check,
        progress,
        links_max: settings.links_max,
        timeout: settings.timeout,
        faults: settings.faults.clone()?,
    })
}

fn are_wanted(reach: Option<bool>, spans_hosts: Option<bool>) -> bool {
    reach.unwrap_or(spans_hosts != Some(false)) && !selvedge_host::simulated::is_simulated()
}

/// Closes links when this process ends: their thread must not run during libfabric's destructors.
fn close_at_exit(hosts: &Arc<RemoteHosts>) {
    static OPENED: Mutex<Vec<(u32, Weak<RemoteHosts>)>> = Mutex::new(Vec::new());
    extern "C" fn close_all() {
        let opened = std::mem::take(&mut *OPENED.lock().ignore_poison());
        for (process, hosts) in opened {
            // A forked child has no progress thread, and must not use the links.
            if let Some(hosts) = hosts.upgrade().filter(|_| process == std::process::id()) {
                hosts.close();
            }
        }
    }
    let mut opened = OPENED.lock().ignore_poison();
    if opened.is_empty() {
        // SAFETY: the handler is a function of this library, which runs it when it is unloaded or the process ends.
        unsafe { libc::atexit(close_all) };
    }
    opened.push((std::process::id(), Arc::downgrade(hosts)));
}

/// Returns the address of this host for other hosts.
pub fn own_address(settings: &HostSettings) -> Result<IpAddr, HostsError> {
    let interfaces = if_addrs::get_if_addrs()?;
    if let Some(wanted) = &settings.interface {
        let is_wanted = |interface: &&if_addrs::Interface| {
            interface.name == *wanted || wanted.parse().is_ok_and(|ip: IpAddr| ip == interface.ip())
        };
        let found = interfaces.iter().filter(is_wanted).map(if_addrs::Interface::ip).min_by_key(preference);
        return found.ok_or_else(|| {
            let have: Vec<String> = interfaces.iter().map(|own| format!("{} ({})", own.name, own.ip())).collect();
            HostsError::NoInterface { wanted: wanted.clone(), have: have.join(", ") }
        });
    }
    // The launcher's name for this host may resolve to a loopback address, as in Debian's /etc/hosts.
    let resolved = settings.address.as_ref().and_then(|name| (name.as_str(), 0).to_socket_addrs().ok());
    let named: Vec<IpAddr> = resolved.into_iter().flatten().map(|address| address.ip()).collect();
    let is_usable = |ip: &IpAddr| !ip.is_loopback() && interfaces.iter().any(|own| own.ip() == *ip);
    if let Some(ip) = named.into_iter().filter(is_usable).min_by_key(preference) {
        return Ok(ip);
    }
    let up = interfaces.iter().filter(|own| own.is_oper_up() && !own.is_loopback()).map(if_addrs::Interface::ip);
    up.min_by_key(preference).ok_or(HostsError::OnlyLoopback)
}

/// Orders addresses: IPv4 first, link-local IPv6 last, because it needs a scope.
fn preference(ip: &IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => 0,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 2,
        IpAddr::V6(_) => 1,
    }
}
