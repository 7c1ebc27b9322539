// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine's description as a table: every number with its unit and its source.
//!
//! Invariant: every key of the description is in the table. The code destructures the structs without `..`, so a new
//! key does not compile until it is added here.

#![allow(non_snake_case)] // MBps is how the unit is written

use selvedge_document::Table;
use serde_json::{Value, json};

use crate::machine::description::{
    AggregationTable, AtuTable, CacheTable, CongestionTable, Description, HostTable, InterfaceTable, LimitsTable,
    LinkTable, NicTable, PathTable, RetransmissionTable, RoutingTable, SpeedTable, SwitchTable, TopologyTable,
    UnitTable,
};
use crate::machine::figure::Figure;

/// One key of the description.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// "link.latency_ns".
    pub key: String,
    pub value: EntryValue,
    pub source: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum EntryValue {
    Number(f64),
    Text(String),
}

/// All keys, in the order of the description.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    pub entries: Vec<Entry>,
}

macro_rules! add_all {
    ($sheet:ident, $section:literal, $table:expr, $kind:ident { $($field:ident),* $(,)? }) => {
        let $kind { $($field),* } = $table;
        $( $field.add_to(&mut $sheet, &format!("{}.{}", $section, stringify!($field))); )*
    };
}

impl Sheet {
    pub fn of(description: &Description) -> Sheet {
        let Description {
            name: _,
            about: _,
            topology,
            routing,
            link,
            switch,
            congestion,
            host,
            nic,
            unit,
            path,
            atu,
            interface,
            aggregation,
            limits,
            published: _,
        } = description;
        let mut sheet = Sheet::default();
        add_all!(
            sheet,
            "topology",
            topology,
            TopologyTable {
                kind,
                dimensions,
                trunks,
                q,
                wrap,
                nodes_per_router,
                order,
                children,
                parents,
                levels,
                radix,
                taper,
                nodes,
                groups,
                routers_per_group,
                global_links_per_router,
                leaves_per_group,
                spines_per_group,
                nodes_per_leaf,
                global_links_per_spine,
                file,
                rails,
                rail_layout,
                rail_group,
            }
        );
        add_all!(sheet, "routing", routing, RoutingTable { algorithm, bias_flits, rail_choice });
        add_all!(
            sheet,
            "link",
            link,
            LinkTable {
                bandwidth_MBps,
                latency_ns,
                flit_bytes,
                flit_overhead_bytes,
                last_flit,
                header_bytes,
                frame_bytes,
                packet_bytes,
                virtual_channels,
                buffer_flits,
                flow_control,
                stop_flits,
                continue_flits,
                node,
                local,
                global,
                levels,
                dimensions,
                loss,
                corruption,
                retransmission,
            }
        );
        add_all!(sheet, "switch", switch, SwitchTable { latency_ns, arbitration, switching, speed_up, output_flits });
        if let Some(congestion) = congestion {
            add_all!(
                sheet,
                "congestion",
                congestion,
                CongestionTable {
                    control,
                    control_bytes,
                    window_flits,
                    timeout_ns,
                    mark_flits,
                    gain,
                    increase_flits,
                    unsolicited_flits,
                }
            );
        }
        add_all!(
            sheet,
            "host",
            host,
            HostTable {
                software_send_ns,
                software_receive_ns,
                doorbell_ns,
                round_trip_ns,
                pio_write_ns,
                pio_MBps,
                pio_bytes_max,
                dma_read_ns,
                dma_write_ns,
                dma_MBps,
                interrupt_ns,
                system_call_ns,
                memory_access_ns,
                copy_MBps,
                caches,
                poll_ns,
                clock_read_ns,
                same_node,
            }
        );
        add_all!(
            sheet,
            "nic",
            nic,
            NicTable {
                mode,
                matching,
                processors,
                command_ns,
                header_ns,
                entry_search_ns,
                table_access_ns,
                transfer_ns,
                event_ns,
                counter_ns,
                polling_loop_ns,
                entry_bytes,
                streams_max,
                receive_flits,
                retry_ns,
                full_mailbox,
            }
        );
        for (name, table) in unit {
            table.add_to(&mut sheet, &format!("unit.{name}"));
        }
        for (name, table) in path {
            table.add_to(&mut sheet, &format!("path.{name}"));
        }
        if let Some(atu) = atu {
            add_all!(sheet, "atu", atu, AtuTable { unit, hit_ns, hit_interval_ns, miss_ns, miss_interval_ns });
        }
        if let Some(interface) = interface {
            add_all!(
                sheet,
                "interface",
                interface,
                InterfaceTable {
                    way,
                    places,
                    outgoing,
                    posted,
                    request,
                    answer,
                    fetch,
                    dequeue_ns,
                    kernel_ns,
                    driver_ns,
                    wake_ns,
                    retry_ns,
                    splits_ppm,
                }
            );
        }
        if let Some(table) = aggregation {
            add_all!(
                sheet,
                "aggregation",
                table,
                AggregationTable { trees, children, credits, payload_bytes, ports, distribution }
            );
        }
        add_all!(
            sheet,
            "limits",
            limits,
            LimitsTable {
                entries,
                headers,
                descriptors,
                counters,
                queues,
                portals,
                triggered,
                velo_bytes,
                mailbox_slots,
                tlb_entries,
                tlb_ways,
                lock_waiters,
            }
        );
        sheet
    }

    pub fn table(&self) -> Table {
        let mut table = Table::with_heads(&["key", ">value", "unit", "source"]);
        for entry in &self.entries {
            let value = match &entry.value {
                EntryValue::Number(number) => number.to_string(),
                EntryValue::Text(text) => text.clone(),
            };
            let source = entry.source.as_deref().unwrap_or(match &entry.value {
                EntryValue::Number(_) => "not said",
                EntryValue::Text(_) => "",
            });
            table.row([entry.key.as_str(), &value, unit(&entry.key), source]);
        }
        table
    }

    pub fn json(&self) -> Value {
        let entries = self.entries.iter().map(|entry| {
            let value = match &entry.value {
                EntryValue::Number(number) => json!(number),
                EntryValue::Text(text) => json!(text),
            };
            json!({ "key": entry.key, "value": value, "source": entry.source })
        });
        entries.collect()
    }

    fn add(&mut self, key: &str, value: EntryValue, source: Option<String>) {
        self.entries.push(Entry { key: key.to_owned(), value, source });
    }
}

/// Returns the unit of a key, which is the end of its name.
fn unit(key: &str) -> &'static str {
    let last = key.rsplit('.').next().unwrap_or(key);
    let last = last.strip_suffix("_max").unwrap_or(last);
    let ends = [
        ("_ns", "ns"),
        ("MBps", "MB/s"),
        ("bytes", "bytes"),
        ("_flits", "flits"),
        ("loss", "of 1"),
        ("corruption", "of 1"),
    ];
    ends.iter().find(|(end, _)| last.ends_with(end)).map_or("", |(_, unit)| unit)
}

trait Add {
    fn add_to(&self, sheet: &mut Sheet, key: &str);
}

impl Add for Figure {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        sheet.add(key, EntryValue::Number(self.value), self.source.clone());
    }
}

impl Add for String {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        sheet.add(key, EntryValue::Text(self.clone()), None);
    }
}

impl<T: Add> Add for Option<T> {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        if let Some(value) = self {
            value.add_to(sheet, key);
        }
    }
}

impl Add for Vec<Figure> {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        let numbers: Vec<String> = self.iter().map(|figure| figure.value.to_string()).collect();
        let source = self.iter().find_map(|figure| figure.source.clone());
        sheet.add(key, EntryValue::Text(format!("[{}]", numbers.join(", "))), source);
    }
}

impl Add for Vec<bool> {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        sheet.add(key, EntryValue::Text(format!("{self:?}")), None);
    }
}

impl Add for Vec<CacheTable> {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        for (number, CacheTable { bytes, access_ns }) in self.iter().enumerate() {
            bytes.add_to(sheet, &format!("{key}.{number}.bytes"));
            access_ns.add_to(sheet, &format!("{key}.{number}.access_ns"));
        }
    }
}

impl Add for SpeedTable {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        let SpeedTable { bandwidth_MBps, latency_ns } = self;
        bandwidth_MBps.add_to(sheet, &format!("{key}.bandwidth_MBps"));
        latency_ns.add_to(sheet, &format!("{key}.latency_ns"));
    }
}

impl Add for Vec<SpeedTable> {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        for (number, table) in self.iter().enumerate() {
            table.add_to(sheet, &format!("{key}.{number}"));
        }
    }
}

impl Add for RetransmissionTable {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        let RetransmissionTable { timeout_ns, window_flits } = self;
        timeout_ns.add_to(sheet, &format!("{key}.timeout_ns"));
        window_flits.add_to(sheet, &format!("{key}.window_flits"));
    }
}

impl Add for UnitTable {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        let UnitTable { latency_ns, interval_ns, MBps, queue, on, of, interrupt, until_sent, carries_data } = self;
        latency_ns.add_to(sheet, &format!("{key}.latency_ns"));
        interval_ns.add_to(sheet, &format!("{key}.interval_ns"));
        MBps.add_to(sheet, &format!("{key}.MBps"));
        queue.add_to(sheet, &format!("{key}.queue"));
        on.add_to(sheet, &format!("{key}.on"));
        of.add_to(sheet, &format!("{key}.of"));
        for (name, is_set) in [("interrupt", interrupt), ("until_sent", until_sent), ("carries_data", carries_data)] {
            if *is_set {
                sheet.add(&format!("{key}.{name}"), EntryValue::Text("true".to_owned()), None);
            }
        }
    }
}

impl Add for PathTable {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        let PathTable {
            inline_bytes,
            frame_bytes,
            slot_bytes,
            issue,
            command,
            read,
            header,
            packet,
            write,
            notify,
            receive,
        } = self;
        inline_bytes.add_to(sheet, &format!("{key}.inline_bytes"));
        frame_bytes.add_to(sheet, &format!("{key}.frame_bytes"));
        slot_bytes.add_to(sheet, &format!("{key}.slot_bytes"));
        let stages = [
            ("issue", issue),
            ("command", command),
            ("read", read),
            ("header", header),
            ("packet", packet),
            ("write", write),
            ("notify", notify),
            ("receive", receive),
        ];
        for (stage, steps) in stages.into_iter().filter(|(_, steps)| !steps.is_empty()) {
            steps.add_to(sheet, &format!("{key}.{stage}"));
        }
    }
}

impl Add for Vec<String> {
    fn add_to(&self, sheet: &mut Sheet, key: &str) {
        sheet.add(key, EntryValue::Text(self.join(", ")), None);
    }
}
