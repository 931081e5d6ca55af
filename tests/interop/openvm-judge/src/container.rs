//! The container of FORMAT.md: a magic, a JSON header and arrays of u32 behind it.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::Path,
};

use anyhow::{bail, ensure, Context, Result};
use openvm_stark_backend::{
    p3_field::PrimeField32,
    p3_matrix::dense::RowMajorMatrix,
    prover::{ColMajorMatrix, MatrixDimensions},
};
use openvm_stark_sdk::config::baby_bear_poseidon2::{Digest, DIGEST_SIZE, F};
use serde_json::{json, Map, Value};

const ALIGNMENT: usize = 64;

/// An array of a file, which may be a matrix elsewhere: a large one is not copied.
pub enum Array<'a> {
    Items([usize; 2], Vec<u32>),
    Columns(&'a ColMajorMatrix<F>),
    Rows(&'a RowMajorMatrix<F>),
}

impl Array<'_> {
    fn shape(&self) -> [usize; 2] {
        match self {
            Array::Items(shape, _) => *shape,
            Array::Columns(matrix) => [matrix.width(), matrix.height()],
            Array::Rows(matrix) => [matrix.width, matrix.values.len() / matrix.width],
        }
    }

    fn write(&self, file: &mut impl Write) -> io::Result<()> {
        let mut put = |item: u32| file.write_all(&item.to_le_bytes());
        match self {
            Array::Items(_, items) => items.iter().copied().try_for_each(put),
            Array::Columns(matrix) => matrix.values.iter().map(F::as_canonical_u32).try_for_each(put),
            Array::Rows(matrix) => (0..matrix.width).try_for_each(|column| {
                matrix
                    .values
                    .iter()
                    .skip(column)
                    .step_by(matrix.width)
                    .map(F::as_canonical_u32)
                    .try_for_each(&mut put)
            }),
        }
    }
}

impl<'a> From<&'a ColMajorMatrix<F>> for Array<'a> {
    fn from(matrix: &'a ColMajorMatrix<F>) -> Self {
        Self::Columns(matrix)
    }
}

impl<'a> From<&'a RowMajorMatrix<F>> for Array<'a> {
    fn from(matrix: &'a RowMajorMatrix<F>) -> Self {
        Self::Rows(matrix)
    }
}

/// Collects the arrays of a file that is being written.
#[derive(Default)]
pub struct ArrayWriter<'a> {
    arrays: Vec<Array<'a>>,
    end: usize,
}

impl<'a> ArrayWriter<'a> {
    /// Appends an array; returns its place for the header.
    pub fn add(&mut self, array: impl Into<Array<'a>>) -> Value {
        let array = array.into();
        let shape = array.shape();
        let offset = self.end.next_multiple_of(ALIGNMENT);
        self.end = offset + 4 * shape[0] * shape[1];
        self.arrays.push(array);
        json!({"offset": offset, "shape": shape})
    }

    /// Appends rows of four items.
    pub fn add_rows(&mut self, rows: impl ExactSizeIterator<Item = [u32; 4]>) -> Value {
        self.add(Array::Items([rows.len(), 4], rows.flatten().collect()))
    }

    /// Writes the file: `header` in front of the arrays.
    pub fn write(self, path: &Path, magic: &[u8; 8], header: &Value) -> Result<()> {
        self.try_write(path, magic, header)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn try_write(self, path: &Path, magic: &[u8; 8], header: &Value) -> Result<()> {
        let header = serde_json::to_vec(header)?;
        let mut file = BufWriter::new(fs::File::create(path)?);
        file.write_all(magic)?;
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        let mut end = 16 + header.len();
        for array in self.arrays {
            let padding = end.next_multiple_of(ALIGNMENT) - end;
            file.write_all(&[0; ALIGNMENT][..padding])?;
            array.write(&mut file)?;
            let [outer, inner] = array.shape();
            end += padding + 4 * outer * inner;
        }
        Ok(file.flush()?)
    }
}

/// A file that was read: its header, and the bytes of its arrays.
pub struct ArrayReader {
    pub header: Object,
    data: Vec<u8>,
}

impl ArrayReader {
    pub fn read(path: &Path, magic: &[u8; 8]) -> Result<Self> {
        let file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            file.len() >= 16 && file[..8] == magic[..],
            "not a file of this kind: {}",
            path.display()
        );
        let length = usize::try_from(u64::from_le_bytes(file[8..16].try_into()?))?;
        let end = length
            .checked_add(16)
            .filter(|&end| end <= file.len())
            .context("the header leaves the file")?;
        let header = Object::new(serde_json::from_slice(&file[16..end])?)?;
        let start = end.next_multiple_of(ALIGNMENT).min(file.len());
        Ok(Self {
            header,
            data: file[start..].to_vec(),
        })
    }

    /// The shape and the items of the array that `place` names.
    pub fn array(&self, place: Value) -> Result<([usize; 2], Vec<u32>)> {
        let mut place = Object::new(place)?;
        let offset = place.number("offset")?;
        let shape: [usize; 2] = serde_json::from_value(place.take("shape")?)?;
        place.end()?;
        let bytes = shape[0]
            .checked_mul(shape[1])
            .and_then(|count| count.checked_mul(4))
            .context("shape")?;
        let end = offset.checked_add(bytes).filter(|&end| end <= self.data.len());
        let bytes = &self.data[offset..end.context("an array leaves the file")?];
        Ok((
            shape,
            bytes
                .chunks_exact(4)
                .map(|item| u32::from_le_bytes(item.try_into().unwrap()))
                .collect(),
        ))
    }

    pub fn matrix(&self, place: Value) -> Result<ColMajorMatrix<F>> {
        let ([width, height], items) = self.array(place)?;
        ensure!(
            width > 0 && height.is_power_of_two(),
            "a matrix of {width} columns and {height} rows"
        );
        let values = items.into_iter().map(element).collect::<Result<Vec<_>>>()?;
        Ok(ColMajorMatrix::new(values, width))
    }
}

/// A JSON object whose keys are taken one by one, so that an unknown key is noticed.
pub struct Object(Map<String, Value>);

impl Object {
    pub fn new(value: Value) -> Result<Self> {
        match value {
            Value::Object(map) => Ok(Self(map)),
            other => bail!("not an object: {other}"),
        }
    }

    pub fn take(&mut self, key: &str) -> Result<Value> {
        self.0.remove(key).with_context(|| format!("no {key}"))
    }

    pub fn number(&mut self, key: &str) -> Result<usize> {
        let value = self.take(key)?;
        let number = value.as_u64().with_context(|| format!("{key} is not a number"))?;
        Ok(usize::try_from(number)?)
    }

    pub fn list(&mut self, key: &str) -> Result<Vec<Value>> {
        match self.take(key)? {
            Value::Array(items) => Ok(items),
            _ => bail!("{key} is not a list"),
        }
    }

    pub fn end(self) -> Result<()> {
        match self.0.keys().next() {
            Some(key) => bail!("unknown key {key}"),
            None => Ok(()),
        }
    }
}

pub fn element(value: u32) -> Result<F> {
    ensure!(value < F::ORDER_U32, "{value} is not below p");
    Ok(F::new(value))
}

pub fn digest_json(digest: &Digest) -> Value {
    json!(digest.each_ref().map(F::as_canonical_u32))
}

pub fn read_digest(value: Value) -> Result<Digest> {
    let items: [u32; DIGEST_SIZE] = serde_json::from_value(value)?;
    let items = items.into_iter().map(element).collect::<Result<Vec<_>>>()?;
    Ok(items.try_into().unwrap())
}
