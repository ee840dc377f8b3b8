use super::*;
#[test]
fn smoke() {
    let z: Vec<f32> = (0..50257)
        .map(|i| (uniform(1, i, 0) as f32 - 0.5) * 20.0 - 100.0)
        .collect();
    for (k, p, m) in [
        (40, 0.95, 0.0),
        (0, 0.95, 0.0),
        (0, 1.0, 0.0),
        (0, 1.0, 0.01),
    ] {
        let s = SamplingSettings {
            top_k: k,
            top_p: p,
            min_p: m,
            ..Default::default()
        };
        let now = std::time::Instant::now();
        let mut n = 0;
        for _ in 0..20 {
            n += Distribution::new(&z, &[1, 2, 3], &s).kept().len();
        }
        println!("{k} {p} {m} {n} {:?}", now.elapsed() / 20);
    }
    let now = std::time::Instant::now();
    let mut h = 0.0;
    for _ in 0..20 {
        h += RowStats::of(&z).entropy_nats;
    }
    println!("stats {:?} {h}", now.elapsed() / 20);
    let now = std::time::Instant::now();
    for _ in 0..20 {
        h += top(&z, 20).len() as f64 + rank(&z, 5) as f64;
    }
    println!("top+rank {:?} {h}", now.elapsed() / 20);
    for s in [0, 42] {
        for p in [0, 1, 5] {
            for r in [0, 1, 2] {
                println!(
                    "{s} {p} {r} {:?} {:#x}",
                    uniform(s, p, r),
                    (uniform(s, p, r) * (1u64 << 53) as f64) as u64
                );
            }
        }
    }
}
