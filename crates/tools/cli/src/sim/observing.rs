// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options that observe the network of a run: `--sample`.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use selvedge_fabric::Topology;
use selvedge_sim::network::Observe;
use selvedge_sim::observers::Sampler;
use selvedge_sim::time::Time;

use super::arguments;
use super::command_line::Args;
use super::runner::NetworkModel;
use super::usage::Usage;

/// Observers of the network of a run.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Observing {
    /// Write the bytes, utilisation, queue and blocked time of each link in each interval to a CSV file [default:
    /// samples.csv]
    #[arg(long, value_name = "TIME[:FILE]", value_parser = sample, help_heading = "Output")]
    pub sample: Option<Sample>,
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
    fn is_empty(&self) -> bool {
        self.sample.is_none()
    }

    /// Refuses observers where no network of packets runs once.
    pub fn check(&self, args: &Args) -> Result<(), Usage> {
        let wrong = |why: &str| Err(Usage(format!("--sample: {why}")));
        if self.is_empty() {
            Ok(())
        } else if args.study || args.describe || args.routes.is_some() {
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
    pub fn observers(&self, topology: &Topology) -> Result<Vec<Box<dyn Observe>>, Usage> {
        let mut observers: Vec<Box<dyn Observe>> = Vec::new();
        if let Some(Sample { interval, file }) = &self.sample {
            observers.push(Box::new(Sampler::new(topology, *interval, Box::new(create("--sample", file)?))));
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
    fn a_sample_has_an_interval_and_perhaps_a_file() {
        let given = |text| sample(text).map(|sample| (sample.interval, sample.file.display().to_string()));
        assert_eq!(given("10us"), Ok((Time::from_ns(10_000), "samples.csv".to_owned())));
        assert_eq!(given("1ms:a/b.csv"), Ok((Time::from_ns(1_000_000), "a/b.csv".to_owned())));
        assert!(given("10").unwrap_err().contains("no unit"));
        assert!(given("0us").unwrap_err().contains("1 ns or more"));
        assert!(given("1us:").unwrap_err().contains("names no file"));
    }
}
