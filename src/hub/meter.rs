//! A download in words: how far it is and how fast. Pure; any thread.

use std::time::{Duration, Instant};

use super::{Phase, Progress};

/// Time over which a rate is measured.
const SPAN: Duration = Duration::from_secs(1);

/// Measures the rate of a download.
#[derive(Debug, Default)]
pub struct Meter {
    since: Option<(Instant, u64)>,
    bytes_per_second: Option<f64>,
}

impl Meter {
    /// Takes in how far the download is at `now`.
    pub fn note(&mut self, progress: &Progress, now: Instant) {
        if progress.phase != Phase::Downloading {
            // What is read from the disk or waited for is no part of a rate.
            *self = Self::default();
            return;
        }
        let done = progress.done_bytes;
        match self.since {
            Some((since, before)) if done >= before => {
                let span = now.saturating_duration_since(since);
                if span >= SPAN {
                    self.bytes_per_second = Some((done - before) as f64 / span.as_secs_f64());
                    self.since = Some((now, done));
                }
            }
            _ => self.since = Some((now, done)),
        }
    }

    /// Once it could be measured.
    pub fn bytes_per_second(&self) -> Option<f64> {
        self.bytes_per_second
    }

    /// One line for a person.
    pub fn describe(&self, progress: &Progress) -> String {
        let Progress {
            phase,
            file,
            done_bytes,
            total_bytes,
        } = progress;
        let share = format!(
            "{} of {} MB, {:.0} %",
            megabytes(*done_bytes as f64),
            megabytes(*total_bytes as f64),
            100.0 * progress.share()
        );
        match phase {
            Phase::Asking => "asking the Hub for its files".to_owned(),
            Phase::Waiting => format!("another program is downloading {file}; waiting for it"),
            Phase::Pausing => "the connection failed; trying again".to_owned(),
            Phase::Verifying => format!("verifying {file}: {share}"),
            Phase::Downloading => match self.bytes_per_second {
                Some(rate) => format!("{file}: {share}, {} MB/s", megabytes(rate)),
                None => format!("{file}: {share}"),
            },
        }
    }
}

impl Progress {
    /// From 0 to 1; 0 while nothing is known.
    pub fn share(&self) -> f64 {
        match self.total_bytes {
            0 => 0.0,
            total => (self.done_bytes as f64 / total as f64).min(1.0),
        }
    }
}

/// Millions of bytes with one digit after the point.
fn megabytes(bytes: f64) -> String {
    format!("{:.1}", bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(phase: Phase, done_bytes: u64) -> Progress {
        Progress {
            phase,
            file: "model.safetensors".to_owned(),
            done_bytes,
            total_bytes: 548_105_171,
        }
    }

    #[test]
    fn a_rate_is_that_of_the_last_second_and_counts_no_bytes_from_the_disk() {
        let mut meter = Meter::default();
        let start = Instant::now();
        meter.note(&at(Phase::Verifying, 0), start);
        let resumed = start + SPAN;
        meter.note(&at(Phase::Downloading, 200_000_000), resumed);
        assert_eq!(meter.bytes_per_second(), None);
        let progress = at(Phase::Downloading, 220_000_000);
        meter.note(&progress, resumed + 2 * SPAN);
        assert_eq!(meter.bytes_per_second(), Some(1e7));
        assert_eq!(
            meter.describe(&progress),
            "model.safetensors: 220.0 of 548.1 MB, 40 %, 10.0 MB/s"
        );
        meter.note(&at(Phase::Pausing, 220_000_000), resumed + 3 * SPAN);
        assert_eq!(meter.bytes_per_second(), None);
    }

    #[test]
    fn nothing_known_is_nothing_done() {
        let progress = Progress {
            total_bytes: 0,
            ..at(Phase::Asking, 0)
        };
        assert_eq!(progress.share(), 0.0);
    }
}
