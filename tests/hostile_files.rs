//! Files that are damaged or made to do harm are refused in one sentence: nothing panics, nothing is
//! run, and no size that a file declares is allocated before it is checked.
//!
//! `LOGITSCOPE_FUZZ_CASES` sets the number of cases of each fuzz test (default 256).

use std::{collections::BTreeMap, fs, path::Path};

use logitscope::{
    model::Gpt2Config,
    tokenizer::{Tokenizer, VocabAndMerges},
};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use safetensors::Dtype;

#[path = "support/checkpoint.rs"]
mod checkpoint;
use checkpoint::*;

/// Counts what this program holds, all tests together.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// More than all tests here hold at once, and far less than a size that a damaged file may declare. The files have half
/// a megabyte.
const MEMORY_LIMIT_BYTES: usize = 64 << 20;

/// No size that a file declared was believed so far.
#[track_caller]
fn memory_is_modest() {
    let peak = MEMORY.peak_usage();
    assert!(peak < MEMORY_LIMIT_BYTES, "{peak} bytes were held at once");
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("LOGITSCOPE_FUZZ_CASES");
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases.ok().and_then(|n| n.parse().ok()).unwrap_or(256))
    }
}

/// A folder whose weights are a ZIP with this pickle.
fn bin_with(pickle: &[u8]) -> tempfile::TempDir {
    let folder = copy("vocab-and-merges");
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    write_zip_bin(&bin(folder.path()), &Tensors::new(), pickle);
    folder
}

fn bin(folder: &Path) -> std::path::PathBuf {
    folder.join("pytorch_model.bin")
}

#[test]
fn hostile_pickles_are_refused_and_not_run() {
    let nested = [vec![0x80, 2, b')'], vec![0x85; 100_000], vec![b'.']].concat();
    let endless = [vec![b'N'; 1_000_000], vec![b'.']].concat();
    let long = [&b"X\xff\xff\xff\x7f"[..], b"abc"].concat();
    let huge = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000NJ\xff\xff\xff\x7ftQ.";
    let view = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n\
        X\x01\0\0\x000NK\x04tQK\0J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86K\0K\0\x86NNtR.";
    let negative = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n\
        X\x01\0\0\x000NK\x04tQJ\xff\xff\xff\xffK\x01\x85K\x01\x85NNtR.";
    let table: &[(&[u8], &str)] = &[
        (
            b"cos\nsystem\n(X\x04\0\0\0truetR.",
            "it asks to run os.system, which a file of weights does not need; it was not run",
        ),
        (
            b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.",
            "it asks to run builtins.eval, which a file of weights does not need; it was not run",
        ),
        (b"ios\nsystem\n.", "it holds the instruction 0x69"),
        (b"", "its list of tensors is cut short"),
        (b"}", "its list of tensors is cut short"),
        (b"0.", "its stack is empty"),
        (b"t.", "its stack has no mark"),
        (b"(0.", "its stack is empty"),
        (b"h\x05.", "it recalls what it never stored"),
        (b"Na.", "it appends to what is no list"),
        (b"NNs.", "it adds a name to what is no dictionary"),
        (b"NNNs.", "it adds a name to what is no dictionary"),
        (b"N.", "it does not hold tensors by name"),
        (b"}.", "it does not hold tensors by name"),
        (b"NQ.", "it refers to a storage without a description"),
        (b"N)R.", "it calls what is no function"),
        (huge, "it does not hold tensors by name"),
        (
            view,
            "a tensor of shape [2147483647, 2147483647] exceeds its storage",
        ),
        (negative, "a tensor has a negative size"),
        (&nested, "it nests tuples more than 16 deep"),
        (&endless, "it takes more than 400000 steps"),
        (&long, "it holds a name of 2147483647 bytes"),
    ];
    for (pickle, problem) in table {
        let found = message(bin_with(pickle).path());
        let expected = format!("pytorch_model.bin cannot be read as PyTorch weights: {problem}");
        assert!(found.starts_with(&expected), "{found}\n{expected}");
        assert!(found.ends_with("download it again or save the model as safetensors"));
    }
    memory_is_modest();
}

#[test]
fn damaged_pytorch_files_are_named() {
    let folder = copy("pytorch-bin");
    let whole = fs::read(bin(folder.path())).unwrap();
    for length in [0, 1, 14, 100, 4000, whole.len() / 2, whole.len() - 1] {
        fs::write(bin(folder.path()), &whole[..length]).unwrap();
        let found = message(folder.path());
        assert!(
            found.starts_with("pytorch_model.bin cannot be read as"),
            "{length}: {found}"
        );
    }
    // A checksum guards the list of tensors.
    let mut changed = whole.clone();
    changed[200] ^= 1;
    fs::write(bin(folder.path()), &changed).unwrap();
    assert!(message(folder.path()).contains("its entry data.pkl is damaged"));

    let legacy = legacy_bin(&tensors());
    for length in [15, 40, 2000, legacy.len() / 2, legacy.len() - 1] {
        fs::write(bin(folder.path()), &legacy[..length]).unwrap();
        let found = message(folder.path());
        assert!(found.contains("cut short"), "{length}: {found}");
    }

    let mut doubles = tensors();
    let table = doubles.get_mut("h.0.ln_1.bias").unwrap();
    *table = (Dtype::F64, vec![48], vec![0; 8 * 48]);
    let pickle = state_dict_pickle(&doubles, &BTreeMap::new(), false);
    write_zip_bin(&bin(folder.path()), &doubles, &pickle);
    assert_eq!(
        message(folder.path()),
        "pytorch_model.bin: the tensor h.0.ln_1.bias has type F64; only F32, F16 and BF16 can be read"
    );

    // The list promises more numbers than the archive holds.
    let mut short = tensors();
    let pickle = state_dict_pickle(&short, &BTreeMap::new(), false);
    short.get_mut("wte.weight").unwrap().2.truncate(100);
    write_zip_bin(&bin(folder.path()), &short, &pickle);
    assert!(message(folder.path()).contains("the numbers of wte.weight are cut short"));
}

#[test]
fn damaged_vocabularies_are_named() {
    let vocab = fs::read(fixture("vocab-and-merges").join("vocab.json")).unwrap();
    let merges = fs::read(fixture("vocab-and-merges").join("merges.txt")).unwrap();
    let good = VocabAndMerges {
        vocab: &vocab,
        merges: &merges,
        added_tokens: None,
        special_tokens_map: None,
    };
    Tokenizer::from_vocab_and_merges(&good).unwrap();
    let refused = |files: VocabAndMerges<'_>, start: &str| {
        let found = Tokenizer::from_vocab_and_merges(&files)
            .unwrap_err()
            .to_string();
        let expected = format!("the tokenizer cannot be {start}");
        assert!(found.starts_with(&expected), "{found}");
    };
    for (bad, start) in [
        (&b""[..], "read: vocab.json: not a table of ids (EOF"),
        (b"[]", "read: vocab.json: not a table of ids"),
        (b"{\"a\": -1}", "read: vocab.json: not a table of ids"),
        (
            b"{\"a\": 4294967296}",
            "read: vocab.json: not a table of ids",
        ),
        (b"\xff", "read: vocab.json: not UTF-8 text"),
        (b"{}", "read: "),
        (b"{\"a\": 4294967295}", "used: token"),
    ] {
        let merges = if bad.len() > 10 { &b""[..] } else { &merges };
        refused(
            VocabAndMerges {
                vocab: bad,
                merges,
                ..good
            },
            start,
        );
    }
    for (bad, start) in [
        (
            &b"h e\nnot two tokens"[..],
            "read: merges.txt: line 2 is not two tokens",
        ),
        (b"h", "read: merges.txt: line 1 is not two tokens"),
        (b"h  e", "read: merges.txt: line 1 is not two tokens"),
        (b"nowhere e", "read: "),
        (b"h e \xff", "read: merges.txt: not UTF-8 text"),
    ] {
        refused(
            VocabAndMerges {
                merges: bad,
                ..good
            },
            start,
        );
    }
    for (bad, start) in [
        (&b"[1]"[..], "read: added_tokens.json: not a table of ids"),
        (
            b"{\"<x>\": 500}",
            "read: added_tokens.json: the token \"<x>\" has id 500 where 400 comes next",
        ),
        (
            b"{\"<x>\": 400, \"<y>\": 400}",
            "read: added_tokens.json: the token",
        ),
    ] {
        refused(
            VocabAndMerges {
                added_tokens: Some(bad),
                ..good
            },
            start,
        );
    }
    let special_tokens_map = Some(&b"[]"[..]);
    let files = VocabAndMerges {
        special_tokens_map,
        ..good
    };
    refused(
        files,
        "read: special_tokens_map.json: not a table of tokens",
    );
}

/// Replace stretches of `bytes`.
fn damage(bytes: &mut Vec<u8>, cuts: Vec<(usize, Vec<u8>, usize)>) {
    for (at, with, len) in cuts {
        let at = at % bytes.len().max(1);
        let end = (at + len).min(bytes.len());
        bytes.splice(at..end, with);
    }
}

fn cuts() -> impl Strategy<Value = Vec<(usize, Vec<u8>, usize)>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..6),
        prop::sample::select(vec![
            b"18446744073709551615".to_vec(),
            b"-1".to_vec(),
            b"1e308".to_vec(),
            b"null".to_vec(),
            b"[[[[".to_vec(),
            b"\"\\ud800\"".to_vec(),
            b"\xff\xff\xff\x7f".to_vec(),
        ]),
    ];
    prop::collection::vec((0usize..100_000, piece, 0usize..9), 1..5)
}

/// The tokenizer can be used, or the refusal is a sentence.
fn survives(tokenizer: Result<Tokenizer, logitscope::tokenizer::TokenizerError>) {
    memory_is_modest();
    match tokenizer {
        Ok(tokenizer) => {
            let ids = tokenizer.encode("The cat sat on the 🙂\n<|endoftext|> mat");
            tokenizer.layout(&ids);
            if let Ok(small) = tokenizer.for_table(300) {
                assert!(small.encode("The cat sat").iter().all(|&id| id < 300));
            }
            memory_is_modest();
        }
        Err(error) => assert!(error.to_string().starts_with("the tokenizer cannot be ")),
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn fuzz_config(cuts in cuts()) {
        let mut text = fs::read(fixture("safetensors").join("config.json")).unwrap();
        damage(&mut text, cuts);
        let _ = Gpt2Config::from_json(&String::from_utf8_lossy(&text));
        memory_is_modest();
    }

    /// The header of a small file; what loads is a whole model.
    #[test]
    fn fuzz_safetensors_header(cuts in cuts(), keep_length in any::<bool>()) {
        let folder = copy("vocab-and-merges");
        let path = folder.path().join("model.safetensors");
        let file = fs::read(&path).unwrap();
        let end = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let mut header = file[8..end].to_vec();
        damage(&mut header, cuts);
        let length = if keep_length { end - 8 } else { header.len() };
        let changed = [&(length as u64).to_le_bytes()[..], &header, &file[end..]].concat();
        fs::write(&path, changed).unwrap();
        let _ = load(folder.path());
        memory_is_modest();
    }

    #[test]
    fn fuzz_tokenizer_json(cuts in cuts()) {
        let mut bytes = fs::read(fixture("safetensors").join("tokenizer.json")).unwrap();
        damage(&mut bytes, cuts);
        survives(Tokenizer::from_json(&bytes));
    }

    #[test]
    fn fuzz_vocab_and_merges(in_vocab in cuts(), in_merges in cuts(), which in 1u8..4) {
        let mut vocab = fs::read(fixture("vocab-and-merges").join("vocab.json")).unwrap();
        let mut merges = fs::read(fixture("vocab-and-merges").join("merges.txt")).unwrap();
        if which & 1 != 0 {
            damage(&mut merges, in_merges);
        }
        if which & 2 != 0 {
            damage(&mut vocab, in_vocab);
        }
        survives(Tokenizer::from_vocab_and_merges(&VocabAndMerges {
            vocab: &vocab,
            merges: &merges,
            added_tokens: None,
            special_tokens_map: None,
        }));
    }

    /// A pickle of the right kind with damage in it, in both containers.
    #[test]
    fn fuzz_pytorch_file(cuts in cuts(), legacy in any::<bool>()) {
        let folder = copy("vocab-and-merges");
        fs::remove_file(folder.path().join("model.safetensors")).unwrap();
        let all = tensors();
        if legacy {
            let mut file = legacy_bin(&all);
            let mut head = file.drain(..12_000).collect();
            damage(&mut head, cuts);
            head.extend(file);
            fs::write(bin(folder.path()), head).unwrap();
        } else {
            let mut pickle = state_dict_pickle(&all, &BTreeMap::new(), false);
            damage(&mut pickle, cuts);
            write_zip_bin(&bin(folder.path()), &all, &pickle);
        }
        let _ = load(folder.path());
        memory_is_modest();
    }
}
