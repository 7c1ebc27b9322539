// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs cells, several at once: each thread takes the next cell when it has finished one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::cells::Cell;
use super::store::Failure;

/// Time between two looks at the progress.
const LOOK: Duration = Duration::from_millis(100);

/// How a run of a cell ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Finished,
    Failed(Failure),
    /// Ended by Ctrl-C; nothing was kept.
    Stopped,
}

/// Is told the number and end of a cell, or from time to time nothing.
type Look<'a> = dyn FnMut(Option<(usize, &Ended)>) + 'a;

/// Runs all cells. `run` runs one; after it returned `Stopped` or an error, no further cell begins. `look` is called after each cell,
/// with its number and end, and from time to time.
pub fn run_all(
    cells: &[&Cell],
    jobs: usize,
    run: &(dyn Fn(&Cell) -> Result<Ended> + Sync),
    look: &mut Look<'_>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let (sender, ends) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, cells.len().max(1)) {
            let (next, sender) = (&next, sender.clone());
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(number) else { return };
                    let ended = run(cell);
                    if !matches!(ended, Ok(Ended::Finished | Ended::Failed(_))) {
                        next.store(cells.len(), Ordering::Relaxed);
                    }
                    // The receiver lives as long as this thread.
                    let _ = sender.send((number, ended));
                }
            });
        }
        drop(sender);
        let mut first_error = None;
        loop {
            match ends.recv_timeout(LOOK) {
                Ok((number, Ok(ended))) => look(Some((number, &ended))),
                Ok((_, Err(error))) => first_error = first_error.or(Some(error)),
                Err(mpsc::RecvTimeoutError::Timeout) => look(None),
                Err(mpsc::RecvTimeoutError::Disconnected) => return first_error.map_or(Ok(()), Err),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;

    fn cells(count: usize) -> Vec<Cell> {
        let cell = |number: usize| Cell {
            id: number.to_string(),
            values: Vec::new(),
            options: Vec::new(),
            command: Vec::new(),
            exit_codes: vec![0],
        };
        (0..count).map(cell).collect()
    }

    #[test]
    fn every_cell_runs_once_on_any_number_of_threads() {
        let all = cells(50);
        let all: Vec<&Cell> = all.iter().collect();
        for jobs in [1, 3, 100] {
            let ran = Mutex::new(Vec::new());
            let mut looked = BTreeSet::new();
            let run = |cell: &Cell| {
                ran.lock().unwrap().push(cell.id.clone());
                Ok(Ended::Finished)
            };
            run_all(&all, jobs, &run, &mut |ended| looked.extend(ended.map(|(number, _)| number))).unwrap();
            let ran = ran.into_inner().unwrap();
            assert_eq!((ran.len(), ran.iter().collect::<BTreeSet<_>>().len(), looked.len()), (50, 50, 50));
        }
        run_all(&[], 2, &|_| Ok(Ended::Finished), &mut |_| {}).unwrap();
    }

    #[test]
    fn a_failed_cell_ends_no_other_and_a_stop_ends_all() {
        let all = cells(20);
        let all: Vec<&Cell> = all.iter().collect();
        let ran = |stop: Ended| {
            let count = AtomicUsize::new(0);
            let run = |cell: &Cell| {
                count.fetch_add(1, Ordering::Relaxed);
                Ok(if cell.id == "3" { stop.clone() } else { Ended::Finished })
            };
            run_all(&all, 1, &run, &mut |_| {}).unwrap();
            count.into_inner()
        };
        assert_eq!(ran(Ended::Failed(Failure { exit_code: None, error: String::new() })), 20);
        assert_eq!(ran(Ended::Stopped), 4);
        let error = run_all(&all, 2, &|_| anyhow::bail!("no room"), &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "no room");
    }
}
