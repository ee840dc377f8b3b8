//! Time and peak memory of loading a checkpoint of GPT-2-small's real size on the CPU. Takes 1.2 GB
//! of memory and 1 GB of disk, so it runs on request only; memory is read on Linux only:
//!
//! ```text
//! cargo bench --bench load_real_size
//! ```
//!
//! Each layout is loaded by a process of its own, so that the peak is that of one load.

use std::{
    error::Error,
    fs::File,
    io::{BufWriter, Write},
    ops::ControlFlow,
    path::Path,
    process::Command,
    time::Instant,
};

use logitscope::model::{ComputeDevice, Gpt2, Gpt2Config, ModelSource, Precision, WeightOptions};

#[path = "../support/checkpoint.rs"]
mod checkpoint;

const CONFIG: &str = r#"{"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024,
    "n_embd": 768, "n_layer": 12, "n_head": 12, "eos_token_id": 50256}"#;
const LOAD: &str = "--load-folder";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|a| a == LOAD) {
        return load(Path::new(&arguments[at + 1]), arguments[at + 2].parse()?);
    }
    for (layout, masks) in [
        ("safetensors", false),
        ("safetensors", true),
        ("bin", false),
    ] {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("config.json"), CONFIG)?;
        let bytes = match layout {
            "bin" => write_bin(&folder.path().join("pytorch_model.bin"))?,
            _ => write_safetensors(&folder.path().join("model.safetensors"), masks)?,
        };
        let masks = if masks { " with masks" } else { "" };
        println!("{layout}{masks}: {:.1} MB on disk", bytes as f64 / 1e6);
        for precision in Precision::ALL {
            let status = Command::new(std::env::current_exe()?)
                .arg(LOAD)
                .arg(folder.path())
                .arg(precision.to_string())
                .status()?;
            assert!(status.success());
        }
    }
    Ok(())
}

/// Load a folder, say what it took, and hold it to the limits.
fn load(folder: &Path, precision: Precision) -> Result<(), Box<dyn Error>> {
    let device = ComputeDevice::flex();
    let before = peak_bytes();
    let started = Instant::now();
    let source = ModelSource::Folder(folder.into());
    let mut read = 0;
    let options = WeightOptions {
        precision,
        ..Default::default()
    };
    let model = Gpt2::load_with(&source, &device, options, &mut |done, _| {
        read = done;
        ControlFlow::Continue(())
    })?;
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(read, 4 * model.config.parameters());
    let weights = model.config.weight_bytes(precision);
    println!("  {precision}: loaded in {seconds:.2} s");
    if let (Some(before), Some(peak)) = (before, peak_bytes()) {
        let taken = peak - before;
        let largest = 4 * (model.config.vocab_size * model.config.n_embd) as u64;
        println!(
            "  peak memory {:.1} MB beyond the program's {:.1}: {:.3} of the {:.1} MB of weights",
            taken as f64 / 1e6,
            before as f64 / 1e6,
            taken as f64 / weights as f64,
            weights as f64 / 1e6
        );
        assert!(
            taken <= weights + largest,
            "more than the weights and one tensor"
        );
    }
    Ok(())
}

/// The most memory that this process has had at once, in bytes.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024 * kilobytes)
}

/// Names and shapes in the order of the file.
fn tensors(masks: bool) -> Vec<(String, Vec<usize>)> {
    let shape = Gpt2Config::shape("gpt2").expect("gpt2 is a shape");
    let d = shape.n_embd;
    let mut all = vec![
        ("wte.weight".to_owned(), vec![shape.vocab_size, d]),
        ("wpe.weight".to_owned(), vec![shape.n_ctx, d]),
    ];
    for layer in 0..shape.n_layer {
        for (part, weight) in [
            ("ln_1", vec![d]),
            ("attn.c_attn", vec![d, 3 * d]),
            ("attn.c_proj", vec![d, d]),
            ("ln_2", vec![d]),
            ("mlp.c_fc", vec![d, 4 * d]),
            ("mlp.c_proj", vec![4 * d, d]),
        ] {
            let bias = weight[weight.len() - 1..].to_vec();
            all.push((format!("h.{layer}.{part}.weight"), weight));
            all.push((format!("h.{layer}.{part}.bias"), bias));
        }
        if masks {
            let mask = vec![1, 1, shape.n_ctx, shape.n_ctx];
            all.push((format!("h.{layer}.attn.bias"), mask));
        }
    }
    all.push(("ln_f.weight".into(), vec![d]));
    all.push(("ln_f.bias".into(), vec![d]));
    all
}

fn write_safetensors(path: &Path, masks: bool) -> Result<u64, Box<dyn Error>> {
    let all = tensors(masks);
    let mut header = serde_json::Map::new();
    let mut at = 0;
    for (name, shape) in &all {
        let end = at + 4 * shape.iter().product::<usize>();
        let entry =
            serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": [at, end] });
        header.insert(name.clone(), entry);
        at = end;
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    write_values(&mut out, at / 4)?;
    out.flush()?;
    Ok(std::fs::metadata(path)?.len())
}

/// As `torch.save` wrote before PyTorch 1.6, which is what the published file is.
fn write_bin(path: &Path) -> Result<u64, Box<dyn Error>> {
    let all = tensors(false);
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(&checkpoint::legacy_head(&all))?;
    for (_, shape) in &all {
        let count: usize = shape.iter().product();
        out.write_all(&(count as u64).to_le_bytes())?;
        write_values(&mut out, count)?;
    }
    out.flush()?;
    Ok(std::fs::metadata(path)?.len())
}

/// Numbers that look random, between -0.05 and 0.05.
fn write_values(out: &mut impl Write, count: usize) -> std::io::Result<()> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64 ^ count as u64;
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let unit = (state >> 40) as f32 / (1 << 24) as f32;
        out.write_all(&(0.1 * unit - 0.05).to_le_bytes())?;
    }
    Ok(())
}
