//! Recorded attention rows on the window's wgpu device.
//!
//! [`RowStore::sync`] is told the current path's rows each frame, compares them by identity with what it holds, and
//! uploads only what differs: one contiguous write for a decode step, everything from the first difference on after
//! a change of branch. Long uploads are spread over frames.

use std::{ops::Range, sync::Arc};

use super::{Shape, rows::Source, word_index, words_before};
use crate::prediction::{AttentionRow, words_per_row};

/// Storage bindings that hold pages; with the log-sum-exps that makes 8, what WebGPU promises a shader stage.
///
/// Keep in sync with `page_0` … in `shaders/heatmap.wgsl`.
pub const MAX_PAGES: usize = 7;

/// Words of a full page: 64 MiB.
pub const PAGE_WORDS: usize = 1 << 24;

/// Words of a page that has just been made; it doubles as rows arrive.
const FIRST_PAGE_WORDS: usize = 1 << 16;

/// Words uploaded in one frame at most, 8 MiB, so that a change of branch never holds a frame up.
const FRAME_WORDS: usize = 1 << 21;

/// Fills a layer's part of a row that is not there: NaNs that no conversion from f32 yields for a computed value.
///
/// Keep in sync with `ABSENT` in `shaders/heatmap.wgsl`.
const ABSENT_WORD: u32 = u32::MAX;

/// What one [`RowStore::sync`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    pub uploaded_rows: usize,
    pub uploaded_bytes: usize,
    /// Contiguous runs of rows that were written; each is one write, or two where a page ends in it.
    pub runs: usize,
    /// Leading rows that are as the record has them.
    pub resident_rows: usize,
}

/// The rows of one path, packed as [`super`] describes, on one device.
pub struct RowStore {
    device: wgpu::Device,
    queue: wgpu::Queue,
    page_words: usize,
    pages: Vec<wgpu::Buffer>,
    log_sum_exp: wgpu::Buffer,
    /// Bound in place of pages that are not there.
    unused: wgpu::Buffer,
    shape: Shape,
    layers: Range<usize>,
    rows: Vec<Source>,
    resident_rows: usize,
    /// Increases whenever a buffer is replaced.
    buffers_version: u64,
    /// Increases whenever rows are written.
    contents_version: u64,
    /// The first row that was written then.
    changed_from: usize,
    scratch: Vec<u32>,
    scratch_lse: Vec<f32>,
}

fn buffer(device: &wgpu::Device, label: &str, words: usize) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some(label),
        size: (words * size_of::<u32>()) as u64,
        usage: wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    })
}

impl RowStore {
    /// `page_words` is a power of two; [`PAGE_WORDS`] outside tests. Smaller where the device binds less.
    pub fn new(device: wgpu::Device, queue: wgpu::Queue, page_words: usize) -> Self {
        let limit_bytes = device
            .limits()
            .max_storage_buffer_binding_size
            .min(device.limits().max_buffer_size);
        let limit = usize::try_from(limit_bytes).unwrap_or(usize::MAX) / size_of::<u32>();
        let largest = 1 << limit.max(1).ilog2();
        let unused = buffer(&device, "attention page not in use", 4);
        let log_sum_exp = buffer(&device, "attention log-sum-exp", 1 << 10);
        Self {
            page_words: page_words.next_power_of_two().min(largest),
            pages: Vec::new(),
            log_sum_exp,
            unused,
            shape: Shape::default(),
            layers: 0..0,
            rows: Vec::new(),
            resident_rows: 0,
            buffers_version: 0,
            contents_version: 0,
            changed_from: 0,
            scratch: Vec::new(),
            scratch_lse: Vec::new(),
            device,
            queue,
        }
    }

    /// The layers that are kept here: all, or only the one in view where all do not fit.
    pub fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    pub fn holds_all_layers(&self) -> bool {
        self.layers.len() == self.shape.n_layer
    }

    pub fn resident_rows(&self) -> usize {
        self.resident_rows
    }

    /// Changes whenever rows are written.
    pub fn version(&self) -> u64 {
        self.contents_version
    }

    /// The first row that may be another than at the given [`Self::version`].
    pub fn changed_since(&self, version: u64) -> usize {
        match self.contents_version - version.min(self.contents_version) {
            0 => usize::MAX,
            1 => self.changed_from,
            _ => 0,
        }
    }

    /// Memory taken on the device.
    pub fn bytes(&self) -> usize {
        let pages: u64 = self.pages.iter().map(wgpu::Buffer::size).sum();
        usize::try_from(pages + self.log_sum_exp.size()).unwrap_or(usize::MAX)
    }

    pub(super) fn page_shift(&self) -> u32 {
        self.page_words.ilog2()
    }

    pub(super) fn buffers_version(&self) -> u64 {
        self.buffers_version
    }

    /// [`MAX_PAGES`] pages and the log-sum-exps, in binding order.
    pub(super) fn buffers(&self) -> impl Iterator<Item = &wgpu::Buffer> {
        (0..MAX_PAGES)
            .map(|page| self.pages.get(page).unwrap_or(&self.unused))
            .chain(std::iter::once(&self.log_sum_exp))
    }

    /// Makes the store equal to `rows`, the current path's record from context position 0 on, as far as one frame's
    /// share of uploading goes; call again until [`Synced::resident_rows`] equals their number.
    ///
    /// Rows that are `None` or of another shape, and layers that were let go, are drawn as absent.
    pub fn sync<'a>(
        &mut self,
        shape: Shape,
        focus_layer: usize,
        rows: impl ExactSizeIterator<Item = Option<&'a Arc<AttentionRow>>>,
    ) -> Synced {
        let n_rows = rows.len();
        let layers = self.layers_for(shape, focus_layer, n_rows);
        if shape != self.shape || layers != self.layers {
            self.shape = shape;
            self.layers = layers;
            self.rows.clear();
        }
        let heads = self.layers.len() * shape.n_head;
        let mut synced = Synced::default();
        let mut run: Option<usize> = None;
        self.resident_rows = n_rows;
        for (index, row) in rows.enumerate() {
            if self.rows.get(index).is_some_and(|held| held.is(row)) {
                if let Some(first) = run.take() {
                    self.write_run(heads, first, &mut synced);
                }
                continue;
            }
            if self.scratch.len() + synced.uploaded_bytes / size_of::<u32>() > FRAME_WORDS {
                self.resident_rows = index;
                break;
            }
            if synced.uploaded_rows == 0 {
                self.changed_from = index;
                self.contents_version += 1;
            }
            run.get_or_insert(index);
            self.gather(index, row);
            if let Some(held) = self.rows.get_mut(index) {
                *held = Source::of(row);
            } else {
                self.rows.push(Source::of(row));
            }
            synced.uploaded_rows += 1;
        }
        if let Some(first) = run {
            self.write_run(heads, first, &mut synced);
        }
        synced.resident_rows = self.resident_rows;
        synced
    }

    fn layers_for(&self, shape: Shape, focus_layer: usize, rows: usize) -> Range<usize> {
        if shape.heads() * words_before(rows) <= MAX_PAGES * self.page_words || shape.n_layer == 0 {
            return 0..shape.n_layer;
        }
        let layer = focus_layer.min(shape.n_layer - 1);
        layer..layer + 1
    }

    /// Appends one row's words and log-sum-exps to the scratch space.
    fn gather(&mut self, index: usize, row: Option<&Arc<AttentionRow>>) {
        let n_head = self.shape.n_head;
        let words = n_head * words_per_row(index + 1);
        let fits = |row: &&Arc<AttentionRow>| {
            row.keys == index + 1 && row.n_head == n_head && row.layers.len() == self.shape.n_layer
        };
        let row = row.filter(fits);
        for layer in self.layers.clone() {
            let part = row
                .and_then(|row| row.layer(layer))
                .filter(|part| part.words.len() == words && part.log_sum_exp.len() == n_head);
            match part {
                Some(part) => {
                    self.scratch.extend_from_slice(&part.words);
                    self.scratch_lse.extend_from_slice(&part.log_sum_exp);
                }
                None => {
                    self.scratch.resize(self.scratch.len() + words, ABSENT_WORD);
                    self.scratch_lse
                        .resize(self.scratch_lse.len() + n_head, 0.0);
                }
            }
        }
    }

    /// Writes the gathered rows, `first` and those after it.
    fn write_run(&mut self, heads: usize, first: usize, synced: &mut Synced) {
        let scratch = std::mem::take(&mut self.scratch);
        let lse = std::mem::take(&mut self.scratch_lse);
        let start = word_index(heads, 0, first, 0);
        self.grow_pages(start + scratch.len());
        self.grow_log_sum_exp(first * heads + lse.len());
        let mut at = 0;
        while at < scratch.len() {
            let page = (start + at) / self.page_words;
            let offset = (start + at) % self.page_words;
            let count = (scratch.len() - at).min(self.page_words - offset);
            if let Some(page) = self.pages.get(page) {
                let bytes = bytemuck::cast_slice(&scratch[at..at + count]);
                self.queue
                    .write_buffer(page, (offset * size_of::<u32>()) as u64, bytes);
            }
            at += count;
        }
        if !lse.is_empty() {
            let offset = (first * heads * size_of::<f32>()) as u64;
            self.queue
                .write_buffer(&self.log_sum_exp, offset, bytemuck::cast_slice(&lse));
        }
        synced.uploaded_bytes += size_of_val(&scratch[..]) + size_of_val(&lse[..]);
        synced.runs += 1;
        (self.scratch, self.scratch_lse) = (scratch, lse);
        self.scratch.clear();
        self.scratch_lse.clear();
        // A change of branch may have made it large.
        self.scratch.shrink_to(FRAME_WORDS / 8);
    }

    /// Makes room for `words` words in all.
    fn grow_pages(&mut self, words: usize) {
        for page in 0..words.div_ceil(self.page_words).min(MAX_PAGES) {
            let needed = (words - page * self.page_words).min(self.page_words);
            let held = self
                .pages
                .get(page)
                .map_or(0, |buffer| buffer.size() as usize / size_of::<u32>());
            if held >= needed {
                continue;
            }
            let size = needed
                .next_power_of_two()
                .max(FIRST_PAGE_WORDS)
                .min(self.page_words);
            let new = buffer(&self.device, "attention page", size);
            match self.pages.get_mut(page) {
                Some(old) => {
                    copy(&self.device, &self.queue, old, &new);
                    *old = new;
                }
                None => self.pages.push(new),
            }
            self.buffers_version += 1;
        }
    }

    fn grow_log_sum_exp(&mut self, values: usize) {
        if self.log_sum_exp.size() as usize >= values * size_of::<f32>() {
            return;
        }
        let new = buffer(
            &self.device,
            "attention log-sum-exp",
            values.next_power_of_two(),
        );
        copy(&self.device, &self.queue, &self.log_sum_exp, &new);
        self.log_sum_exp = new;
        self.buffers_version += 1;
    }
}

/// Copies all of `old` to the start of `new`, on the device.
fn copy(device: &wgpu::Device, queue: &wgpu::Queue, old: &wgpu::Buffer, new: &wgpu::Buffer) {
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    encoder.copy_buffer_to_buffer(old, 0, new, 0, Some(old.size()));
    queue.submit([encoder.finish()]);
}
