//! Choosing a compute device never panics and says why.

use std::process::Command;

use logitscope::model::{
    CheckRow, ComputeDevice, DeviceChoice, DeviceKind, LoadRequest, ModelError, ModelSource,
    Outcome, self_check,
};

#[path = "support/adapter.rs"]
mod adapter;

#[test]
fn choices_have_names() {
    for choice in [DeviceChoice::Auto, DeviceChoice::Cpu, DeviceChoice::Gpu] {
        assert_eq!(choice.to_string().parse(), Ok(choice));
    }
    assert_eq!(
        "tpu".parse::<DeviceChoice>(),
        Err("unknown device \"tpu\"; use auto, cpu or gpu".to_owned())
    );
}

#[test]
fn the_cpu_is_always_there() {
    let cpu = ComputeDevice::open(DeviceChoice::Cpu).unwrap();
    assert_eq!((cpu.kind, cpu.software), (DeviceKind::Cpu, false));
    assert!(cpu.name.starts_with("CPU (flex, "));
}

#[test]
fn auto_takes_no_software_rasteriser() {
    let auto = ComputeDevice::open(DeviceChoice::Auto).unwrap();
    assert!(!auto.software);
    match auto.kind {
        DeviceKind::Gpu => assert_eq!(auto.why, "a GPU was found"),
        DeviceKind::Cpu => assert!(
            auto.why == "no GPU found" || auto.why.starts_with("only a software rasteriser: "),
            "{}",
            auto.why
        ),
    }
}

#[test]
fn a_gpu_can_be_opened_more_than_once() {
    let Some(first) = adapter::gpu("a_gpu_can_be_opened_more_than_once") else {
        return;
    };
    let second = ComputeDevice::open(DeviceChoice::Gpu).unwrap();
    assert_eq!(first.burn, second.burn);
    assert_eq!(first.kind, DeviceKind::Gpu);
    assert!(first.max_storage_binding_bytes >= 128 << 20);
}

#[test]
fn the_self_check_passes_for_the_built_in_model() {
    let rows = self_check(&LoadRequest::new(ModelSource::BuiltIn, DeviceChoice::Auto));
    for CheckRow {
        name,
        detail,
        outcome,
    } in &rows
    {
        println!("{name}: {outcome}: {detail}");
        assert_ne!(*outcome, Outcome::Failed, "{name}: {detail}");
    }
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0].outcome, Outcome::Passed);
}

/// Runs itself in a process whose Vulkan loader finds no driver.
#[test]
fn without_an_adapter_there_is_a_sentence() {
    const INNER: &str = "LOGITSCOPE_TEST_WITHOUT_ADAPTER";
    if std::env::var_os(INNER).is_none() {
        if !cfg!(target_os = "linux") {
            println!("without_an_adapter_there_is_a_sentence: drivers can be hidden on Linux only");
            return;
        }
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "without_an_adapter_there_is_a_sentence"])
            .env(INNER, "1")
            .env("VK_DRIVER_FILES", "/nowhere.json")
            .env("VK_ICD_FILENAMES", "/nowhere.json")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let error = ComputeDevice::open(DeviceChoice::Gpu).unwrap_err();
    assert!(matches!(error, ModelError::NoAdapter(_)));
    assert_eq!(
        error.to_string(),
        "no GPU found: wgpu lists no graphics adapter; choose the CPU"
    );
    let auto = ComputeDevice::open(DeviceChoice::Auto).unwrap();
    assert_eq!(
        (auto.kind, auto.why.as_str()),
        (DeviceKind::Cpu, "no GPU found")
    );
    let rows = self_check(&LoadRequest::new(ModelSource::BuiltIn, DeviceChoice::Auto));
    assert_eq!(rows.len(), 3);
    for row in &rows[1..] {
        assert_eq!(row.outcome, Outcome::Skipped);
        assert_eq!(row.detail, "skipped: no adapter");
    }
}
