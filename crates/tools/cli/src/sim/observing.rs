// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options that observe the network of a run: `--sample`, `--dump-link`, `--statistics`; and faults that only these show.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use selvedge_fabric::Topology;
use selvedge_sim::machine::Machine;
use selvedge_sim::network::{NetworkConfig, Observe};
use selvedge_sim::observers::Sampler;
use selvedge_sim::phits::dump::Dump;
use selvedge_sim::time::Time;

use super::command_line::Args;
use super::runner::NetworkModel;
use super::statistics::{self, Loaded, Statistics};
use super::usage::Usage;
use super::{arguments, faults};

/// Observers of the network of a run.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Observing {
    /// Write the bytes, utilisation, queue and blocked time of each link in each interval to a CSV file [default:
    /// samples.csv]
    #[arg(long, value_name = "TIME[:FILE]", value_parser = sample, help_heading = "Output")]
    pub sample: Option<Sample>,

    /// Write the flits and control characters of one direction of a link to a file; may be given several times. `selvedge
    /// fabric check` checks it
    #[arg(long, value_name = "A-B:FILE", value_parser = dump, help_heading = "Output")]
    pub dump_link: Vec<DumpLink>,

    /// Load a statistics plug-in, with its arguments; may be given several times. selvedge_statistics.h describes them
    #[arg(long, value_name = "FILE.so[:ARGS]", value_parser = statistics::statistics, help_heading = "Output")]
    pub statistics: Vec<Statistics>,

    /// Give the flow control of data from A to B a defect: stop-continue exchanges STOP and CONTINUE (seed 002, section
    /// 2.5)
    #[arg(long, value_name = "stop-continue@A-B", value_parser = defect, help_heading = "Machine")]
    pub link_fault: Vec<String>,

    /// Put the correction of that defect into the link from A to B
    #[arg(long, value_name = "A-B", help_heading = "Machine")]
    pub link_correction: Vec<String>,
}

/// One direction of a link, and the file of its dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpLink {
    pub link: String,
    pub file: PathBuf,
}

fn dump(text: &str) -> Result<DumpLink, String> {
    match text.rsplit_once(':') {
        Some((link, file)) if !link.is_empty() && !file.is_empty() => {
            Ok(DumpLink { link: link.to_owned(), file: file.into() })
        }
        _ => Err(format!("'{text}' is not of the form A-B:FILE, as in 0-1:link.txt")),
    }
}

/// The link of `stop-continue@A-B`.
fn defect(text: &str) -> Result<String, String> {
    match text.split_once('@') {
        Some(("stop-continue", link)) if !link.is_empty() => Ok(link.to_owned()),
        _ => Err(format!("'{text}' is not of the form stop-continue@A-B, as in stop-continue@0-1")),
    }
}

/// The interval of samples, and their file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub interval: Time,
    pub file: PathBuf,
}

const SAMPLES: &str = "samples.csv";

fn sample(text: &str) -> Result<Sample, String> {
    let (interval, file) = text.split_once(':').unwrap_or((text, SAMPLES));
    let interval = arguments::time(interval)?;
    if interval < Time::from_ns(1) {
        return Err(format!("'{text}': an interval has 1 ns or more, as in 10us"));
    }
    if file.is_empty() {
        return Err(format!("'{text}' names no file; write one after the colon, or leave the colon out"));
    }
    Ok(Sample { interval, file: file.into() })
}

impl Observing {
    /// The first option of these that is given.
    pub fn given(&self) -> Option<&'static str> {
        let options = [
            ("--sample", self.sample.is_some()),
            ("--dump-link", !self.dump_link.is_empty()),
            ("--statistics", !self.statistics.is_empty()),
            ("--link-fault", !self.link_fault.is_empty()),
            ("--link-correction", !self.link_correction.is_empty()),
        ];
        options.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }

    /// Gives the machine the defects and corrections of its links.
    pub fn change(&self, machine: &mut Machine) -> Result<(), Usage> {
        let channels = |option: &str, links: &[String]| -> Result<Vec<u32>, Usage> {
            links.iter().map(|link| faults::direction(&machine.topology, option, link)).collect()
        };
        let defects = channels("--link-fault", &self.link_fault)?;
        let corrections = channels("--link-correction", &self.link_correction)?;
        (machine.network.control_defects, machine.network.control_corrections) = (defects, corrections);
        Ok(())
    }

    /// Options that the report shows.
    pub fn options(&self) -> Vec<(String, String)> {
        let all = [("link with exchanged STOP", &self.link_fault), ("link with correction", &self.link_correction)];
        let given = all.into_iter().filter(|(_, links)| !links.is_empty());
        given.map(|(name, links)| (name.to_owned(), links.join(", "))).collect()
    }

    /// Refuses observers where no network of packets runs once.
    pub fn check(&self, args: &Args) -> Result<(), Usage> {
        let Some(option) = self.given() else { return Ok(()) };
        let wrong = |why: &str| Err(Usage(format!("{option}: {why}")));
        if args.study || args.describe || args.routes.is_some() {
            wrong("it is for programs and --traffic; leave it out")
        } else if args.network == NetworkModel::Message {
            wrong("whole messages have no packets to observe; take --network packet")
        } else if args.traffic.is_some() && args.traffic_options.load.len() > 1 {
            wrong("several loads are several runs; give one --load")
        } else {
            Ok(())
        }
    }

    /// The observers, over the topology that the run uses. Makes their files.
    pub fn observers(&self, topology: &Topology, config: &NetworkConfig) -> Result<Vec<Box<dyn Observe>>, Usage> {
        let mut observers: Vec<Box<dyn Observe>> = Vec::new();
        if let Some(Sample { interval, file }) = &self.sample {
            observers.push(Box::new(Sampler::new(topology, *interval, Box::new(create("--sample", file)?))));
        }
        for DumpLink { link, file } in &self.dump_link {
            let channel = faults::direction(topology, "--dump-link", link)?;
            observers.push(Box::new(Dump::new(topology, config, channel, Box::new(create("--dump-link", file)?))));
        }
        for wanted in &self.statistics {
            observers.push(Box::new(Loaded::begin(wanted, topology, config)?));
        }
        Ok(observers)
    }
}

fn create(option: &str, file: &Path) -> Result<BufWriter<File>, Usage> {
    let made = File::create(file);
    let made = made.map_err(|error| {
        Usage(format!("{option} {}: {error}; name a file in a folder that is there", file.display()))
    })?;
    Ok(BufWriter::with_capacity(1 << 16, made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_dumps_and_faults_are_named() {
        assert_eq!(dump("(0,1)-(0,2):d.txt").map(|given| given.link), Ok("(0,1)-(0,2)".to_owned()));
        assert!(dump("0-1").unwrap_err().contains("A-B:FILE") && dump(":f").is_err() && dump("0-1:").is_err());
        assert_eq!(defect("stop-continue@0-1"), Ok("0-1".to_owned()));
        assert!(defect("crc@0-1").unwrap_err().contains("stop-continue@A-B") && defect("0-1").is_err());
    }

    #[test]
    fn a_sample_has_an_interval_and_perhaps_a_file() {
        let given = |text| sample(text).map(|sample| (sample.interval, sample.file.display().to_string()));
        assert_eq!(given("10us"), Ok((Time::from_ns(10_000), "samples.csv".to_owned())));
        assert_eq!(given("1ms:a/b.csv"), Ok((Time::from_ns(1_000_000), "a/b.csv".to_owned())));
        assert!(given("10").unwrap_err().contains("no unit"));
        assert!(given("0us").unwrap_err().contains("1 ns or more"));
        assert!(given("1us:").unwrap_err().contains("names no file"));
    }
}
