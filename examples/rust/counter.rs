//! A sampling counter, and nothing else: no heap, no collector.
//!
//! It speaks gcfuzz's protocol (docs/protocol.md), so that the rule by which it samples is checked
//! allocation by allocation. Every byte counts; whenever more than `period_bytes` have been
//! counted, one sample is taken and that many bytes are forgotten. With `--off-by-one` it has the
//! mistake that such counters tend to have: it compares with >=.
//!
//! A counter in any language has three parts: a contract, which says what is promised; actions,
//! which the counter carries out, and your sampler will in its place; lines, each of which gets
//! one answer. `gcfuzz schema` prints a JSON Schema of the lines.

use std::collections::HashMap;
use std::io;

const FIXED_BYTES: u64 = 16; // As the layout says.

// There is no nursery; sizes around 1024 bytes are interesting all the same.
const CONTRACT: &str = r#"{
    "nursery_bytes": 1024,
    "layout": {
        "kinds": {"string": {"type_index": 1, "fixed_bytes": 16, "item_bytes": 1}},
        "large_object_bytes": 65537,
        "word_bytes": 1,
        "object_bytes_max": 65536
    },
    "sampling": {"period_bytes": {"minimum": 1, "maximum": 1048576}, "disabling": ["drop"]},
    "actions": ["allocate_string", "free", "enable_sampling", "disable_sampling"],
    "observes": ["samples", "size"]
}"#;

struct Counter {
    off_by_one: bool,
    period_bytes: u64,  // 0 while sampling is off.
    counted_bytes: u64, // Since the last sample.
}

impl Counter {
    fn is_due(&self) -> bool {
        if self.off_by_one {
            return self.counted_bytes >= self.period_bytes;
        }
        self.counted_bytes > self.period_bytes
    }

    fn allocate(&mut self, size: u64) -> String {
        let mut samples = 0;
        if self.period_bytes > 0 {
            self.counted_bytes += size;
            while self.is_due() {
                self.counted_bytes -= self.period_bytes;
                samples += 1;
            }
        }
        format!(r#"{{"samples": {samples}, "size": {size}}}"#)
    }

    fn sample(&mut self, every_bytes: u64) -> String {
        (self.period_bytes, self.counted_bytes) = (every_bytes, 0);
        "{}".into()
    }

    fn answer(&mut self, line: &str) -> Option<String> {
        if line.starts_with(r#"{"gcfuzz":"#) {
            self.sample(0);
            return Some(format!(r#"{{"contract": {}}}"#, CONTRACT.replace('\n', "")));
        }
        let action = flat_object(line)?;
        let number = |key| action.get(key)?.parse::<u64>().ok();
        match *action.get("do")? {
            "allocate_string" => Some(self.allocate(FIXED_BYTES + number("length")?)),
            "free" => Some("{}".into()),
            "enable_sampling" => Some(self.sample(number("period_bytes")?)),
            "disable_sampling" => Some(self.sample(0)),
            _ => None,
        }
    }
}

/// The keys of an action with their values. None of these is an object, a list or a string with a
/// comma in it, so that a reader of all JSON would be too much.
fn flat_object(line: &str) -> Option<HashMap<&str, &str>> {
    let pairs = line.trim().strip_prefix('{')?.strip_suffix('}')?;
    let sides = pairs.split(',').map(|pair| {
        let (key, value) = pair.split_once(':')?;
        Some((key.trim().trim_matches('"'), value.trim().trim_matches('"')))
    });
    sides.collect()
}

fn main() -> io::Result<()> {
    let mut counter = Counter {
        off_by_one: std::env::args().any(|each| each == "--off-by-one"),
        period_bytes: 0,
        counted_bytes: 0,
    };
    for line in io::stdin().lines() {
        let reply = counter.answer(&line?);
        println!("{}", reply.unwrap_or(r#"{"error": "no action"}"#.into()));
    }
    Ok(())
}
