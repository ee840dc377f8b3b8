use super::*;
fn story() -> Tokenizer {
    Tokenizer::from_json(include_bytes!("../../assets/storyteller/tokenizer.json")).unwrap()
}
#[test]
fn smoke() {
    let t = story();
    println!(
        "{} eot {:?} missing {}",
        t.vocab_size(),
        t.end_of_text(),
        t.inner.byte_ids.iter().filter(|b| b.is_none()).count()
    );
    let ids = t.encode("Once upon a time\n🙂 <|endoftext|>é");
    println!(
        "{ids:?} {:?}",
        ids.iter().map(|&i| t.label(i)).collect::<Vec<_>>()
    );
    println!("{:?}", t.layout(&ids));
    for n in [100_000usize, 1_000_000] {
        for (name, s) in [
            ("words", "the quick brown ".repeat(n / 16)),
            ("a", "a".repeat(n)),
            ("sp", " ".repeat(n)),
            ("nl", " \n".repeat(n / 2)),
            ("x", "x y".repeat(n / 3)),
            ("emoji", "🙂".repeat(n)),
        ] {
            let now = std::time::Instant::now();
            let ids = t.encode(&s);
            let e = now.elapsed();
            let now = std::time::Instant::now();
            let b = t.boundaries(&s).len();
            let w = now.elapsed();
            let now = std::time::Instant::now();
            assert_eq!(t.layout(&ids).text, s);
            println!(
                "{name} {n}: {} {e:?} {b} {w:?} layout {:?}",
                ids.len(),
                now.elapsed()
            );
            if n == 100_000 {
                let now = std::time::Instant::now();
                let ed = t.replace(&ids, 50_000..50_000, "zz");
                println!("   edit {:?} {}", now.elapsed(), ed.exact);
            }
        }
    }
    let now = std::time::Instant::now();
    let f = t.find("the", 20);
    println!(
        "{:?} {:?}",
        now.elapsed(),
        f.iter().map(|&i| t.label(i)).collect::<Vec<_>>()
    );
    let now = std::time::Instant::now();
    story();
    println!("load {:?}", now.elapsed());
}
