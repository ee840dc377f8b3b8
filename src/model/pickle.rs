//! The subset of Python's pickle format that `torch.save` writes for a state dict.
//!
//! A pickle is a program for a stack machine that may call any Python function. This machine
//! knows four of them, all of which only describe tensors; whatever else a file asks for is
//! refused by name and nothing is ever run. Owns the machine and its limits; where the numbers of
//! a tensor lie is known to `pytorch_file`.

use std::{cell::RefCell, collections::HashMap, io::Read, rc::Rc};

use safetensors::Dtype;

/// A state dict of a thousand tensors takes some 40,000 steps.
const MAX_STEPS: usize = 400_000;
const MAX_TEXT: usize = 1 << 16;
/// Texts are kept for the memo, so their sum is limited too.
const MAX_TEXT_SUM: usize = 8 << 20;
/// Tuples in tuples: dropping them recurses.
const MAX_DEPTH: usize = 16;
const MAX_DIMS: usize = 8;

/// The numbers that one or more tensors share.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Storage {
    pub key: String,
    pub dtype: Dtype,
    pub count: u64,
}

/// A view of a storage, in values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PickledTensor {
    pub storage: Rc<Storage>,
    pub offset: u64,
    pub shape: Vec<usize>,
    pub strides: Vec<u64>,
}

/// What a pickle can leave behind, as far as it matters here.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Anything that weights do not depend on.
    Other,
    False,
    Int(i64),
    Text(Rc<str>),
    Tuple(Rc<[Value]>, usize),
    /// The texts in a list; other members are dropped.
    Texts(Rc<RefCell<Vec<Rc<str>>>>),
    /// The tensors and numbers in a dict by their name; other members are dropped.
    Dict(Rc<RefCell<Members>>),
    Global(Rc<str>),
    Storage(Rc<Storage>),
    Tensor(Rc<PickledTensor>),
}

pub(super) type Members = Vec<(Rc<str>, Member)>;

#[derive(Debug, Clone)]
pub(super) enum Member {
    Tensor(Rc<PickledTensor>),
    False,
    Other,
}

/// Read one pickle up to its end and return what it describes, or what is wrong with it.
pub(super) fn read_pickle(reader: &mut dyn Read) -> Result<Value, String> {
    Machine {
        reader,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        texts: 0,
    }
    .run()
}

struct Machine<'a> {
    reader: &'a mut dyn Read,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    /// Bytes of text read so far.
    texts: usize,
}

impl Machine<'_> {
    fn run(mut self) -> Result<Value, String> {
        for _ in 0..MAX_STEPS {
            let [code] = self.bytes()?;
            if code == b'.' {
                return self.pop();
            }
            self.step(code)?;
        }
        Err(format!("it takes more than {MAX_STEPS} steps"))
    }

    fn step(&mut self, code: u8) -> Result<(), String> {
        match code {
            0x80 => drop(self.bytes::<1>()?),
            0x95 => drop(self.bytes::<8>()?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.pop_mark()?),

            b'N' | 0x88 => self.stack.push(Value::Other),
            0x89 => self.stack.push(Value::False),
            b'K' => {
                let value = self.bytes::<1>()?[0].into();
                self.stack.push(Value::Int(value));
            }
            b'M' => {
                let value = u16::from_le_bytes(self.bytes()?).into();
                self.stack.push(Value::Int(value));
            }
            b'J' => {
                let value = i32::from_le_bytes(self.bytes()?).into();
                self.stack.push(Value::Int(value));
            }
            0x8a => self.long()?,
            b'G' => {
                self.bytes::<8>()?;
                self.stack.push(Value::Other);
            }
            b'X' | b'T' | b'B' => {
                let length = u32::from_le_bytes(self.bytes()?);
                self.text(length as usize, code != b'B')?;
            }
            0x8c | b'U' | b'C' => {
                let [length] = self.bytes()?;
                self.text(length.into(), code != b'C')?;
            }

            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.stack
                    .push(Value::Global(format!("{module}.{name}").into()));
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Value::Text(name), Value::Text(module)) = (name, module) else {
                    return Err("a function has no name".into());
                };
                self.stack
                    .push(Value::Global(format!("{module}.{name}").into()));
            }
            b'Q' => {
                let id = self.pop()?;
                let storage = storage(&id)?;
                self.stack.push(Value::Storage(Rc::new(storage)));
            }
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                let made = call(&function, &arguments)?;
                self.stack.push(made);
            }
            // The state of an OrderedDict is a version number for each of its members.
            b'b' => drop(self.pop()?),

            b')' => self.tuple(self.stack.len())?,
            0x85..=0x87 => {
                let length = usize::from(code - 0x84);
                let start = self.stack.len().checked_sub(length);
                self.tuple(start.ok_or("its stack is empty")?)?;
            }
            b't' => {
                let start = self.mark()?;
                self.tuple(start)?;
            }
            b']' => self.stack.push(Value::Texts(Rc::default())),
            b'}' => self.stack.push(Value::Dict(Rc::default())),
            b'a' => {
                let member = self.pop()?;
                self.append(vec![member])?;
            }
            b'e' => {
                let members = self.pop_mark()?;
                self.append(members)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.insert(vec![key, value])?;
            }
            b'u' => {
                let members = self.pop_mark()?;
                self.insert(members)?;
            }

            b'q' => {
                let [slot] = self.bytes()?;
                self.memorise(slot.into())?;
            }
            b'r' => {
                let slot = u32::from_le_bytes(self.bytes()?);
                self.memorise(slot)?;
            }
            0x94 => {
                let slot = u32::try_from(self.memo.len()).map_err(|e| e.to_string())?;
                self.memorise(slot)?;
            }
            b'h' => {
                let [slot] = self.bytes()?;
                self.recall(slot.into())?;
            }
            b'j' => {
                let slot = u32::from_le_bytes(self.bytes()?);
                self.recall(slot)?;
            }
            other => {
                return Err(format!(
                    "it holds the instruction 0x{other:02x}, which weights do not need"
                ));
            }
        }
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.reader
            .read_exact(&mut bytes)
            .map_err(|_| "its list of tensors is cut short".to_owned())?;
        Ok(bytes)
    }

    /// Push a text of `length` bytes, or nothing of interest where it is a byte string.
    fn text(&mut self, length: usize, is_text: bool) -> Result<(), String> {
        self.texts = self.texts.saturating_add(length);
        if length > MAX_TEXT || self.texts > MAX_TEXT_SUM {
            return Err(format!("it holds a name of {length} bytes"));
        }
        let mut bytes = vec![0; length];
        self.reader
            .read_exact(&mut bytes)
            .map_err(|_| "its list of tensors is cut short".to_owned())?;
        self.stack.push(if is_text {
            Value::Text(String::from_utf8_lossy(&bytes).into())
        } else {
            Value::Other
        });
        Ok(())
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        loop {
            match self.bytes()? {
                [b'\n'] => return Ok(String::from_utf8_lossy(&line).into_owned()),
                [byte] if line.len() < 256 => line.push(byte),
                _ => return Err("a function's name has more than 256 bytes".into()),
            }
        }
    }

    fn long(&mut self) -> Result<(), String> {
        let [length] = self.bytes()?;
        let mut value = 0u128;
        for place in 0..u32::from(length) {
            let [byte] = self.bytes()?;
            value |= u128::from(byte).checked_shl(8 * place).unwrap_or(0);
        }
        // A longer or negative one is no size of anything.
        self.stack.push(match i64::try_from(value) {
            Ok(value) if length <= 8 => Value::Int(value),
            _ => Value::Other,
        });
        Ok(())
    }

    fn pop(&mut self) -> Result<Value, String> {
        if self.marks.last() == Some(&self.stack.len()) {
            return Err("its stack is empty".into());
        }
        self.stack.pop().ok_or_else(|| "its stack is empty".into())
    }

    fn mark(&mut self) -> Result<usize, String> {
        let mark = self.marks.pop().ok_or("its stack has no mark")?;
        if mark > self.stack.len() {
            return Err("its stack is empty".into());
        }
        Ok(mark)
    }

    fn pop_mark(&mut self) -> Result<Vec<Value>, String> {
        let mark = self.mark()?;
        Ok(self.stack.split_off(mark))
    }

    fn tuple(&mut self, start: usize) -> Result<(), String> {
        let members = self.stack.split_off(start);
        let inner = members.iter().map(|m| match m {
            Value::Tuple(_, depth) => *depth,
            _ => 0,
        });
        let depth = 1 + inner.max().unwrap_or(0);
        if depth > MAX_DEPTH {
            return Err(format!("it nests tuples more than {MAX_DEPTH} deep"));
        }
        self.stack.push(Value::Tuple(members.into(), depth));
        Ok(())
    }

    fn append(&mut self, members: Vec<Value>) -> Result<(), String> {
        let Some(Value::Texts(texts)) = self.stack.last() else {
            return Err("it appends to what is no list".into());
        };
        texts
            .borrow_mut()
            .extend(members.into_iter().filter_map(|m| match m {
                Value::Text(text) => Some(text),
                _ => None,
            }));
        Ok(())
    }

    /// Keys and values in turn.
    fn insert(&mut self, members: Vec<Value>) -> Result<(), String> {
        let Some(Value::Dict(dict)) = self.stack.last() else {
            return Err("it adds a name to what is no dictionary".into());
        };
        let mut dict = dict.borrow_mut();
        for pair in members.chunks_exact(2) {
            if let [Value::Text(name), value] = pair {
                let member = match value {
                    Value::Tensor(tensor) => Member::Tensor(tensor.clone()),
                    Value::False => Member::False,
                    _ => Member::Other,
                };
                dict.push((name.clone(), member));
            }
        }
        Ok(())
    }

    fn memorise(&mut self, slot: u32) -> Result<(), String> {
        let value = self.stack.last().ok_or("its stack is empty")?.clone();
        self.memo.insert(slot, value);
        Ok(())
    }

    fn recall(&mut self, slot: u32) -> Result<(), String> {
        let value = self
            .memo
            .get(&slot)
            .ok_or("it recalls what it never stored")?;
        self.stack.push(value.clone());
        Ok(())
    }
}

/// `("storage", torch.FloatStorage, key, device, count)`, in old files with a sixth member.
fn storage(id: &Value) -> Result<Storage, String> {
    let Value::Tuple(members, _) = id else {
        return Err("it refers to a storage without a description".into());
    };
    let (
        Some(Value::Text(kind)),
        Some(Value::Global(class)),
        Some(Value::Text(key)),
        Some(Value::Int(count)),
    ) = (
        members.first(),
        members.get(1),
        members.get(2),
        members.get(4),
    )
    else {
        return Err("it refers to a storage without a description".into());
    };
    if &**kind != "storage" {
        return Err(format!("it refers to a {kind:?}, which is no storage"));
    }
    let dtype = match class.strip_prefix("torch.") {
        Some("FloatStorage") => Dtype::F32,
        Some("HalfStorage") => Dtype::F16,
        Some("BFloat16Storage") => Dtype::BF16,
        Some("DoubleStorage") => Dtype::F64,
        Some("LongStorage") => Dtype::I64,
        Some("IntStorage") => Dtype::I32,
        Some("ShortStorage") => Dtype::I16,
        Some("CharStorage") => Dtype::I8,
        Some("ByteStorage") => Dtype::U8,
        Some("BoolStorage") => Dtype::BOOL,
        _ => return Err(format!("it holds a storage of the unknown type {class}")),
    };
    Ok(Storage {
        key: key.to_string(),
        dtype,
        count: u64::try_from(*count).map_err(|_| "a storage has a negative size")?,
    })
}

fn call(function: &Value, arguments: &Value) -> Result<Value, String> {
    let Value::Global(name) = function else {
        return Err("it calls what is no function".into());
    };
    let Value::Tuple(arguments, _) = arguments else {
        return Err(format!("it calls {name} without arguments"));
    };
    match &**name {
        "collections.OrderedDict" if arguments.is_empty() => Ok(Value::Dict(Rc::default())),
        "torch._utils._rebuild_tensor_v2" | "torch._utils._rebuild_tensor" => tensor(arguments),
        "torch._utils._rebuild_parameter" => match arguments.first() {
            Some(Value::Tensor(tensor)) => Ok(Value::Tensor(tensor.clone())),
            _ => Err("a parameter has no tensor".into()),
        },
        _ => Err(format!(
            "it asks to run {name}, which a file of weights does not need; it was not run"
        )),
    }
}

/// `(storage, offset, shape, strides, …)`.
fn tensor(arguments: &[Value]) -> Result<Value, String> {
    let [
        Value::Storage(storage),
        Value::Int(offset),
        Value::Tuple(shape, _),
        Value::Tuple(strides, _),
        ..,
    ] = arguments
    else {
        return Err("a tensor is not described as torch.save does it".into());
    };
    if shape.len() > MAX_DIMS || shape.len() != strides.len() {
        return Err(format!("a tensor has {} dimensions", shape.len()));
    }
    let size = |value: &Value| match value {
        Value::Int(n) => u64::try_from(*n).map_err(|_| "a tensor has a negative size".to_owned()),
        _ => Err("a tensor's size is no number".to_owned()),
    };
    let sizes: Vec<u64> = shape.iter().map(size).collect::<Result<_, _>>()?;
    let strides: Vec<u64> = strides.iter().map(size).collect::<Result<_, _>>()?;
    let offset = size(&Value::Int(*offset))?;
    // The last value of the view lies inside the storage.
    let end = sizes
        .iter()
        .zip(&strides)
        .try_fold(offset, |end, (&n, &step)| {
            end.checked_add(n.saturating_sub(1).checked_mul(step)?)
        });
    let values = sizes.iter().try_fold(1u64, |all, &n| all.checked_mul(n));
    let inside = values == Some(0) || end.is_some_and(|end| end < storage.count);
    if !inside || values.is_none_or(|n| n > storage.count) {
        return Err(format!("a tensor of shape {sizes:?} exceeds its storage"));
    }
    let shape = sizes
        .iter()
        .map(|&n| usize::try_from(n).map_err(|e| e.to_string()))
        .collect::<Result<_, _>>()?;
    Ok(Value::Tensor(Rc::new(PickledTensor {
        storage: storage.clone(),
        offset,
        shape,
        strides,
    })))
}
