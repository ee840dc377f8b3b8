//! Files from every panel's own menu, through a dialog that the test answers, read back.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use egui::Role;
use egui_kittest::kittest::Queryable as _;
use logitscope::{
    export::{Saver, csv},
    ui::Panel,
};
use tempfile::TempDir;

use crate::window::Window;

/// A window with a run on record, whose dialogs are answered with one path.
struct Desk {
    window: Window,
    folder: TempDir,
    answer: Arc<Mutex<Option<PathBuf>>>,
    /// The names that dialogs were opened with.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Desk {
    fn new() -> Self {
        let mut window = Window::sized(1000.0, 600.0);
        let (answer, asked) = (Arc::<Mutex<Option<PathBuf>>>::default(), Arc::default());
        let saver = {
            let (answer, asked): (_, Arc<Mutex<Vec<String>>>) =
                (answer.clone(), Arc::clone(&asked));
            Saver::asking(Box::new(move |name| {
                asked.lock().unwrap().push(name.to_owned());
                let path = answer.lock().unwrap().clone();
                Box::pin(async move { Ok(path) })
            }))
        };
        window.harness.state_mut().set_saver(saver);
        window.click("Run");
        window.append(6);
        window.click("Stop");
        Self {
            window,
            folder: TempDir::new().unwrap(),
            answer,
            asked,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Shows one panel alone; the toy's with a toy in the model's place.
    fn alone(&mut self, panel: Panel) {
        self.window.click("Panels");
        self.window.button("Show one alone").hover();
        self.window.settle();
        self.window
            .harness
            .get_by_role_and_label(Role::RadioButton, panel.title())
            .click();
        self.window.settle();
        if panel == Panel::Toy {
            self.window.click("Example: logits");
        }
    }

    /// Clicks an entry of a panel's menu, in its submenu of pictures if it is there, and answers the dialog.
    #[track_caller]
    fn ask(&mut self, panel: Panel, entry: &str, answer: Option<&Path>) {
        *self.answer.lock().unwrap() = answer.map(Path::to_owned);
        self.window.click(&format!("{} menu", panel.title()));
        if entry.starts_with("PNG") {
            self.window.named("Save the picture").hover();
            self.window.settle();
        }
        self.window.click(entry);
    }

    /// The same, and waits until this is said of the file.
    #[track_caller]
    fn save(&mut self, panel: Panel, entry: &str, path: &Path, said: &str) {
        self.ask(panel, entry, Some(path));
        let end = Instant::now() + Duration::from_secs(60);
        while !self.window.says(said) {
            assert!(Instant::now() < end, "{panel:?}: never said: {said}");
            std::thread::sleep(Duration::from_millis(2));
            self.window.harness.step();
        }
    }

    fn dismiss(&mut self) {
        self.window.click("Dismiss");
    }
}

fn read_csv(path: &Path) -> (HashMap<String, String>, Vec<Vec<String>>) {
    let text = std::fs::read_to_string(path).unwrap();
    let (facts, cells) = csv::parse(&text);
    (facts.into_iter().collect(), cells)
}

/// Width and height, how many different colours there are, and the texts by their keywords.
fn read_png(path: &Path) -> ([u32; 2], usize, HashMap<String, String>) {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    reader.finish().unwrap();
    let info = reader.info();
    let mut texts = HashMap::new();
    for chunk in &info.uncompressed_latin1_text {
        texts.insert(chunk.keyword.clone(), chunk.text.clone());
    }
    for chunk in &info.utf8_text {
        texts.insert(chunk.keyword.clone(), chunk.get_text().unwrap());
    }
    let colours: std::collections::HashSet<_> = pixels.chunks_exact(4).collect();
    ([info.width, info.height], colours.len(), texts)
}

/// What the file of every panel says.
#[track_caller]
fn assert_facts(facts: &HashMap<String, String>, capital: bool, desk: &Desk, panel: Panel) {
    let fact = |key: &str| {
        let mut key = key.to_owned();
        if capital {
            key[..1].make_ascii_uppercase();
        }
        let found = facts.get(&key);
        found.unwrap_or_else(|| panic!("{panel:?} has no {key}"))
    };
    let session = desk.window.session();
    let (model, prompt) = match panel {
        Panel::Toy => ("toy", session.text()),
        _ => ("storyteller", "Once upon a time"),
    };
    assert_eq!(
        (fact("model").as_str(), fact("prompt").as_str()),
        (model, prompt)
    );
    assert_eq!(fact("text"), session.text());
    assert_eq!(fact("step"), &session.selected().to_string());
    assert_eq!(fact("panel"), panel.title());
    assert!(fact("settings").contains("\"seed\":42"));
    assert!(!fact("shown").is_empty());
}

#[test]
fn every_panel_saves_its_picture_at_every_scale_and_its_numbers() {
    let mut desk = Desk::new();
    let tokens = desk.window.session().len();
    for panel in Panel::ALL {
        desk.alone(panel);
        let mut sizes = Vec::new();
        // The largest of one panel alone: nine million pixels are a while without optimisation.
        let scales: &[u32] = match panel {
            Panel::NextToken => &[1, 2, 4],
            _ => &[1, 2],
        };
        for scale in scales {
            let path = desk.path(&format!("{panel:?} {scale}.png"));
            let said = format!("Saved {}.", path.display());
            desk.save(panel, &format!("PNG at {scale} ×…"), &path, &said);
            let (size, colours, texts) = read_png(&path);
            assert!(colours > 20, "{panel:?}: {colours} colours");
            assert_facts(&texts, true, &desk, panel);
            sizes.push(size);
            desk.dismiss();
        }
        for (size, scale) in sizes.iter().zip(scales) {
            for (side, first) in size.iter().zip(sizes[0]) {
                assert!(
                    side.abs_diff(first * scale) <= side / 20,
                    "{panel:?}: {sizes:?}"
                );
            }
        }
        let path = desk.path(&format!("{panel:?}.csv"));
        let said = format!("Saved {}.", path.display());
        desk.save(panel, "Save the numbers as CSV…", &path, &said);
        desk.dismiss();
        let (facts, cells) = read_csv(&path);
        assert_facts(&facts, false, &desk, panel);
        let columns = cells[0].len();
        assert!(columns >= 2 && cells.len() >= 2, "{panel:?}");
        assert!(cells.iter().all(|row| row.len() == columns), "{panel:?}");
        if matches!(panel, Panel::Tokens | Panel::Timeline | Panel::Sequence) {
            assert_eq!(cells.len(), 1 + tokens, "{panel:?}: a row a token");
        }
        let name = desk.asked.lock().unwrap().last().unwrap().clone();
        let step = desk.window.session().selected();
        assert!(name.ends_with(&format!("-step-{step}.csv")), "{name}");
    }
}

#[test]
fn the_numbers_are_those_of_the_session() {
    let mut desk = Desk::new();
    let save = |desk: &mut Desk, panel: Panel| {
        desk.alone(panel);
        let path = desk.path(&format!("{panel:?}.csv"));
        let said = format!("Saved {}.", path.display());
        desk.save(panel, "Save the numbers as CSV…", &path, &said);
        desk.dismiss();
        read_csv(&path).1
    };
    let rows = save(&mut desk, Panel::NextToken);
    let view = desk.window.session().view().unwrap();
    for (cells, row) in rows[1..].iter().zip(&view.top) {
        assert_eq!(cells[1], row.id.to_string());
        let percent: f64 = cells[3].parse().unwrap();
        assert!((percent - 100.0 * row.prob).abs() < 1e-5);
    }
    let rows = save(&mut desk, Panel::Tokens);
    for (cells, id) in rows[1..].iter().zip(desk.window.session().ids()) {
        assert_eq!(cells[1], id.to_string());
    }
    let rows = save(&mut desk, Panel::Sampling);
    assert!(rows.contains(&vec!["seed".to_owned(), "42".to_owned()]));
    assert!(rows.contains(&vec!["min-p".to_owned(), "off".to_owned()]));
    let path = desk.path("run.json");
    let said = format!("Saved {}.", path.display());
    desk.alone(Panel::Text);
    desk.save(Panel::Text, "Save the run as JSON…", &path, &said);
    let run: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(run["text"], desk.window.text());
    assert_eq!(
        run["steps"].as_array().unwrap().len(),
        desk.window.session().len()
    );
}

#[test]
fn a_cancelled_dialog_says_nothing_and_a_place_that_cannot_be_written_is_named() {
    let mut desk = Desk::new();
    desk.alone(Panel::Timeline);
    desk.ask(Panel::Timeline, "Save the numbers as CSV…", None);
    desk.window.wait(0.5);
    assert!(!desk.window.says("Dismiss"));
    let nowhere = desk.path("none").join("a.csv");
    desk.save(
        Panel::Timeline,
        "Save the numbers as CSV…",
        &nowhere,
        "a.csv could not be written",
    );
    desk.dismiss();
    let folder = desk.path("folder.png");
    std::fs::create_dir(&folder).unwrap();
    desk.alone(Panel::Tokens);
    desk.save(
        Panel::Tokens,
        "PNG at 1 ×…",
        &folder,
        "folder.png could not be written",
    );
    desk.dismiss();
    // Nothing is lost, and the next one is saved.
    let path = desk.path("東京 'né' %20.csv");
    let said = format!("Saved {}.", path.display());
    desk.save(Panel::Tokens, "Save the numbers as CSV…", &path, &said);
    let names = std::fs::read_dir(desk.folder.path()).unwrap().count();
    assert_eq!(names, 2, "no part of a file is left");
    // What went well goes by itself.
    desk.window.wait(9.0);
    assert!(!desk.window.says("Saved"));
}

#[test]
fn without_numbers_the_menu_says_so() {
    let mut desk = Desk::new();
    desk.window.select_all();
    desk.window.press(egui::Key::Delete);
    desk.window.wait(0.5);
    assert_eq!(desk.window.session().len(), 0);
    for panel in [Panel::Tokens, Panel::Attention, Panel::Timeline] {
        let said = format!("{} has no numbers yet.", panel.title());
        let nowhere = desk.path("a.csv");
        desk.alone(panel);
        desk.save(panel, "Save the numbers as CSV…", &nowhere, &said);
        desk.dismiss();
    }
    assert!(desk.asked.lock().unwrap().is_empty());
}

#[test]
fn numbers_are_copied_from_every_menu() {
    let mut desk = Desk::new();
    for panel in Panel::ALL {
        desk.alone(panel);
        desk.window.click(&format!("{} menu", panel.title()));
        desk.window.button("Copy numbers as table").click();
        let mut copied = None;
        for _ in 0..3 {
            desk.window.harness.step();
            for command in &desk.window.harness.output().platform_output.commands {
                if let egui::OutputCommand::CopyText(text) = command {
                    copied = Some(text.clone());
                }
            }
        }
        let copied = copied.unwrap_or_else(|| panic!("{panel:?} copies nothing"));
        let columns = copied.lines().next().unwrap().split('\t').count();
        assert!(
            copied.lines().all(|row| row.split('\t').count() == columns),
            "{panel:?}"
        );
    }
}
