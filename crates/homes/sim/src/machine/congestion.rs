// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion control in a machine's file: the keys of `[congestion]`, and their defaults.

use super::description::CongestionTable;
use super::figure::Figure;
use crate::congestion::{CongestionConfig, Control, Ecn, ReceiverDriven};
use crate::network::NetworkConfig;
use crate::time::Time;

/// DCTCP's g.
const GAIN: f64 = 1.0 / 16.0;
/// Packets that wait for an output before a switch marks the next one.
const MARK_PACKETS: u64 = 4;
const CONTROL_BYTES: u64 = 8;
const TIMEOUT: Time = Time::from_ns(100_000);
const FLITS_MAX: u64 = 1 << 30;

/// Returns the control that a table describes; `None`: none. An error has the key and the reason.
pub(super) fn config(
    table: &CongestionTable,
    network: &NetworkConfig,
) -> Result<Option<CongestionConfig>, (&'static str, String)> {
    let packet = u64::from(network.flits(network.link.packet_bytes));
    let is_ecn = match table.control.as_str() {
        "none" => return Ok(None),
        "ecn" => true,
        "receiver" => false,
        other => return Err(("control", format!("'{other}' must be one of none, ecn, receiver"))),
    };
    let CongestionTable { mark_flits, gain, increase_flits, unsolicited_flits, .. } = table;
    let ecn_only = [("mark_flits", mark_flits), ("gain", gain), ("increase_flits", increase_flits)];
    let receiver_only = [("unsolicited_flits", unsolicited_flits)];
    let (others, control) = if is_ecn { (&receiver_only[..], "receiver") } else { (&ecn_only[..], "ecn") };
    if let Some((key, _)) = others.iter().find(|(_, figure)| figure.is_some()) {
        return Err((key, format!("belongs to the control {control}: leave it out, or set control = \"{control}\"")));
    }
    let flits = |key: &'static str, figure: &Option<Figure>, least: u64, default: u64| match figure {
        Some(figure) => figure.whole(least, FLITS_MAX).map_err(|why| (key, why)),
        None => Ok(default.min(FLITS_MAX)),
    };
    // Flits on a link and in the switch behind it do not wait.
    let link = (network.link.latency + network.switch.latency).0.div_ceil(network.flit_time().0.max(1));
    let control = match is_ecn {
        true => Control::Ecn(Ecn {
            mark_flits: flits("mark_flits", mark_flits, 0, packet * MARK_PACKETS + link)? as u32,
            gain: gain.as_ref().map_or(GAIN, |gain| gain.value),
            increase_flits: increase_flits.as_ref().map_or(packet as f64, |step| step.value),
        }),
        false => Control::Receiver(ReceiverDriven {
            unsolicited_flits: match unsolicited_flits {
                Some(_) => Some(flits("unsolicited_flits", unsolicited_flits, 0, 0)? as u32),
                None => None,
            },
        }),
    };
    let window = table.window_flits.as_ref();
    let window = window.map(|figure| figure.whole(packet, FLITS_MAX).map_err(|why| ("window_flits", why)));
    Ok(Some(CongestionConfig {
        control,
        control_bytes: flits("control_bytes", &table.control_bytes, 0, CONTROL_BYTES)? as u32,
        window_flits: window.transpose()?.map(|flits| flits as u32),
        timeout: table.timeout_ns.as_ref().map_or(TIMEOUT, |timeout| Time::from_ns_f64(timeout.value)),
    }))
}
