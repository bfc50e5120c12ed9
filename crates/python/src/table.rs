//! Tables for Python's data libraries.

use crate::values::refused;
use columns::{Column, Stream, Values};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

/// Rows and columns that pandas, polars, DuckDB and pyarrow read in place, through the Arrow C interface.
#[pyclass(frozen, module = "freeblock")]
pub(crate) struct Table(pub(crate) columns::Table);

#[pymethods]
impl Table {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.rows()
    }

    /// The names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.0.columns().iter().map(|column| column.name()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.rows()
    }

    fn __repr__(&self) -> String {
        format!("<freeblock.Table of {} rows: {}>", self.0.rows(), self.column_names().join(", "))
    }

    /// A column as a list of Python's own numbers, texts or truth values; None where a row has no value.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        match self.0.columns().iter().find(|column| column.name() == name) {
            Some(column) => list(py, column),
            None => Err(PyKeyError::new_err(name.to_owned())),
        }
    }

    /// All columns as lists, by name.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for column in self.0.columns() {
            dict.set_item(column.name(), list(py, column)?)?;
        }
        Ok(dict)
    }

    /// The rows as a stream of one batch of Arrow's C interface; nothing is copied. A requested schema is not applied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        PyCapsule::new_with_value(py, self.0.stream(), c"arrow_array_stream")
    }

    /// The names and types of the columns, as Arrow's C interface has them.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, self.0.schema(), c"arrow_schema")
    }

    /// A copy for another process.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Vec<Plain<'py>>,))> {
        let make = py.import("freeblock._native")?.getattr("table")?;
        let columns = self.0.columns().iter();
        let columns: PyResult<Vec<Plain<'py>>> = columns
            .map(|column| Ok((column.name().to_owned(), kind(column).to_owned(), list(py, column)?)))
            .collect();
        Ok((make, (columns?,)))
    }
}

/// A column as values of Python: name, kind, values.
type Plain<'py> = (String, String, Bound<'py, PyList>);

/// Returns the name of the kind of a column, for [`table`].
fn kind(column: &Column) -> &'static str {
    match column.values() {
        Values::U64(_) => "uint64",
        Values::I64(_) => "int64",
        Values::F64(_) => "double",
        Values::Text(_) => "text",
        Values::Words { .. } => "words",
        Values::Flags(_) => "bool",
    }
}

fn list<'py>(py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyList>> {
    let none = || Ok(py.None().into_bound(py));
    let rows = 0..column.values().rows();
    let all: PyResult<Vec<Bound<'py, PyAny>>> = match column.values() {
        Values::U64(values) => rows
            .map(|row| if column.is_valid(row) { values[row].into_bound_py_any(py) } else { none() })
            .collect(),
        Values::I64(values) => rows
            .map(|row| if column.is_valid(row) { values[row].into_bound_py_any(py) } else { none() })
            .collect(),
        Values::F64(values) => rows
            .map(|row| if column.is_valid(row) { values[row].into_bound_py_any(py) } else { none() })
            .collect(),
        Values::Text(text) => rows
            .map(|row| if column.is_valid(row) { text.get(row).into_bound_py_any(py) } else { none() })
            .collect(),
        Values::Words { codes, words } => rows
            .map(|row| {
                if column.is_valid(row) { words.get(codes[row].into()).into_bound_py_any(py) } else { none() }
            })
            .collect(),
        Values::Flags(bits) => rows
            .map(|row| if column.is_valid(row) { bits.get(row).into_bound_py_any(py) } else { none() })
            .collect(),
    };
    PyList::new(py, all?)
}

/// Makes a table of lists: each column has a name, a kind ("uint64", "int64", "double", "text", "words" for texts of which few
/// differ, or "bool"), and its values, None for a row without one.
#[pyfunction]
pub(crate) fn table(columns: Vec<(String, String, Bound<'_, PyList>)>) -> PyResult<Table> {
    let mut made = Vec::new();
    for (name, kind, list) in &columns {
        let (values, valid) = match kind.as_str() {
            "uint64" => gather(list, Values::U64)?,
            "int64" => gather(list, Values::I64)?,
            "double" => gather(list, Values::F64)?,
            "text" => gather(list, |texts: Vec<String>| Values::text(texts))?,
            "words" => {
                let (texts, valid) = gather_some::<String>(list)?;
                (
                    words(&texts)
                        .ok_or_else(|| refused(format_args!("column {name:?} has more than 256 words")))?,
                    valid,
                )
            }
            "bool" => gather(list, |flags: Vec<bool>| Values::flags(flags))?,
            _ => return Err(PyTypeError::new_err(format!("column {name:?}: no kind is called {kind:?}"))),
        };
        made.push((name.as_str(), values, valid));
    }
    columns::Table::with_gaps(made).map(Table).map_err(refused)
}

fn words(texts: &[String]) -> Option<Values> {
    let mut words: Vec<&str> = Vec::new();
    let mut codes = Vec::with_capacity(texts.len());
    for text in texts {
        let code = words.iter().position(|word| word == text).unwrap_or_else(|| {
            words.push(text);
            words.len() - 1
        });
        codes.push(u8::try_from(code).ok()?);
    }
    Some(Values::words(codes, &words))
}

/// Values, and for each row whether it has one; `None` if all rows have.
type Gathered<T> = (T, Option<Vec<bool>>);

fn gather<'py, T>(
    list: &Bound<'py, PyList>,
    make: impl FnOnce(Vec<T>) -> Values,
) -> PyResult<Gathered<Values>>
where
    T: Default + for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    gather_some(list).map(|(values, valid)| (make(values), valid))
}

fn gather_some<'py, T>(list: &Bound<'py, PyList>) -> PyResult<Gathered<Vec<T>>>
where
    T: Default + for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    let (mut values, mut valid) = (Vec::with_capacity(list.len()), Vec::with_capacity(list.len()));
    for item in list {
        valid.push(!item.is_none());
        values.push(if item.is_none() { T::default() } else { item.extract::<T>()? });
    }
    let gaps = valid.contains(&false);
    Ok((values, gaps.then_some(valid)))
}

/// A consumer in this process may read the stream on another thread.
const _: () = {
    const fn sent<T: Send + 'static>() {}
    sent::<Stream>();
};
