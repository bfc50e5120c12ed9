//! A small file layer over logical blocks, with a buffer cache: it gives a log-structured disk the load of many small
//! files.
//!
//! [`FileSystem`] keeps files in a fixed number of directories on a [`Store`] of 4 KB blocks, which the host
//! implements. Inodes, directories and pointers lie in blocks of their own, so creating, appending and deleting dirty
//! metadata too. All blocks go through a cache: the least recently used block leaves first; dirty blocks are written
//! when they leave or at a [`sync`](FileSystem::sync), and never if they are freed before. [`mod@format`] describes
//! the layout. [`content`] generates bytes for files, so that every read can be checked.
//!
//! # Example
//! ```
//! use lab_apps::files::{FileConfig, FileError, FilePath, FileSystem, MemoryStore, content};
//!
//! let mut store = MemoryStore::new(1_000);
//! let mut files = FileSystem::format(&mut store, FileConfig::new(1_000))?;
//! let path = FilePath::new(17, 4711);
//! let mut bytes = vec![0; 7_000];
//! content::fill(path.name, 0, &mut bytes);
//! files.create(path, &bytes[..5_000])?;
//! files.append(path, &bytes[5_000..])?;
//! files.sync()?;
//!
//! let mut files = FileSystem::mount(&mut store, 64)?;
//! let mut read = Vec::new();
//! assert_eq!(files.read(path, &mut read)?, 7_000);
//! assert_eq!(content::mismatch(path.name, 0, &read), None);
//! files.delete(path)?;
//! assert_eq!(files.read(path, &mut read), Err(FileError::NoSuchFile(path)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cache;
pub mod content;
mod damage;
mod error;
mod file_system;
pub mod format;
mod mount;
mod numbers;
mod path;
mod store;

pub use cache::FileStatistics;
pub use damage::BlockDamage;
pub use error::{FileError, MountError, StoreCall};
pub use file_system::{CACHE_BLOCKS_MIN, FileSystem, FileUsage};
pub use mount::FileConfig;
pub use path::FilePath;
pub use store::{BLOCK_BYTES, LogicalBlock, MemoryStore, MemoryStoreError, Store};
