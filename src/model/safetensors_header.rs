//! The header of a safetensors file: names, types, shapes and places of its tensors.
//!
//! Every length that the file declares is checked against its size before it is believed.

use std::{io::Read, path::Path};

use safetensors::tensor::Metadata;

use super::{
    error::ModelError,
    tensor_files::{Layout, Placed},
};

/// A header takes some 100 bytes for each of a few hundred tensors. The format itself allows 100 MB, which would take
/// several times that in memory.
const MAX_HEADER: u64 = 8 << 20;

/// Read the header of the file `name` at `path`, which has `length` bytes.
///
/// # Errors
/// Where the file is no safetensors file, or shorter or longer than its header says.
pub(super) fn read_header(
    name: &str,
    path: &Path,
    reader: &mut dyn Read,
    length: u64,
) -> Result<Vec<(String, Placed)>, ModelError> {
    let bad = |problem: String| ModelError::Header {
        file: name.into(),
        problem,
    };
    let io = |source| ModelError::Io {
        path: path.into(),
        source,
    };
    let truncated = |expected: u64| ModelError::Truncated {
        file: name.into(),
        expected,
        found: length,
    };
    if length < 8 {
        return Err(bad(format!("it has only {length} bytes")));
    }
    let mut size = [0; 8];
    reader.read_exact(&mut size).map_err(io)?;
    let header_bytes = u64::from_le_bytes(size);
    if header_bytes > MAX_HEADER {
        return Err(bad(format!("its header claims {header_bytes} bytes")));
    }
    if header_bytes > length - 8 {
        return Err(truncated(8 + header_bytes));
    }
    let mut header = vec![0; header_bytes as usize];
    reader.read_exact(&mut header).map_err(io)?;
    // This also checks that offsets are gapless and fit shapes and types.
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|e| bad(format!("its header cannot be read ({e})")))?;
    let data_start = 8 + header_bytes;
    let expected = data_start.saturating_add(metadata.data_len() as u64);
    if expected > length {
        return Err(truncated(expected));
    }
    if expected < length {
        return Err(ModelError::Overlong {
            file: name.into(),
            expected,
            found: length,
        });
    }

    Ok(metadata
        .tensors()
        .into_iter()
        .map(|(tensor, info)| {
            let placed = Placed {
                dtype: info.dtype,
                shape: info.shape.clone(),
                start: data_start + info.data_offsets.0 as u64,
                layout: Layout::Rows,
            };
            (tensor, placed)
        })
        .collect())
}
