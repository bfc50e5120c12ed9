//! The parser of DiskSim's parameter files: blocks of `key = value`, lists, `source`, `instantiate`, `topology`.
//!
//! The grammar is as lenient as the files in circulation require: a comma may be missing at the end of a line and may stand
//! before a closing bracket, and keys contain blanks, dots, slashes and parentheses.

use super::instances::Instances;
use super::source::{At, Fault, Scalar, Sources, printable};

/// The deepest nesting of blocks and lists accepted, which bounds the parser's recursion; real files stay below ten.
const NESTING_LEVELS_MAX: usize = 64;

/// A value after `=`, or in a list.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Scalar(Scalar),
    List { items: Vec<Value>, at: At },
    Block(Block),
}

impl Value {
    pub fn at(&self) -> At {
        match self {
            Self::Scalar(scalar) => scalar.at,
            Self::List { at, .. } => *at,
            Self::Block(block) => block.at,
        }
    }
}

/// `kind name { key = value, ... }`; nested blocks mostly have no name.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub kind: String,
    pub name: String,
    pub fields: Vec<Field>,
    pub at: At,
}

/// `key = value`. Each run of blanks inside the key is reduced to one blank.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub key: String,
    pub value: Value,
}

/// A statement at the top of a file.
#[derive(Clone, Debug)]
pub(super) enum Statement {
    Block(Block),
    Instantiate { names: Instances, spec: Scalar },
    Topology(Node),
}

/// A component in the topology, with the components below it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub kind: String,
    pub name: String,
    pub children: Vec<Node>,
}

/// Parses a whole file, and every file that it sources.
pub(super) fn parse(sources: &mut Sources<'_>, file: u32) -> Result<Vec<Statement>, Fault> {
    let text = sources.text(file);
    let mut parser = Parser { sources, text: text.as_ref(), file, position: 0 };
    let mut statements = Vec::new();
    loop {
        parser.skip_separators();
        if parser.peek().is_none() {
            return Ok(statements);
        }
        parser.statement(&mut statements)?;
    }
}

struct Parser<'p, 's> {
    sources: &'p mut Sources<'s>,
    text: &'p str,
    file: u32,
    position: usize,
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | ';' | '[' | ']' | '{' | '}' | '=' | '#' | '"')
}

impl Parser<'_, '_> {
    fn at(&self) -> At {
        At { file: self.file, offset: self.position }
    }

    fn rest(&self) -> &str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) {
        self.position += self.peek().map_or(0, char::len_utf8);
    }

    fn skip_while(&mut self, keep: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.position += rest.find(|c| !keep(c)).unwrap_or(rest.len());
    }

    /// Skips blanks and comments.
    fn skip_blank(&mut self) {
        loop {
            self.skip_while(char::is_whitespace);
            if self.peek() != Some('#') {
                return;
            }
            self.skip_while(|c| c != '\n');
        }
    }

    fn skip_separators(&mut self) {
        loop {
            self.skip_blank();
            if !matches!(self.peek(), Some(',' | ';')) {
                return;
            }
            self.bump();
        }
    }

    fn skip_on_line(&mut self) {
        self.skip_while(|c| c.is_whitespace() && c != '\n');
    }

    /// Returns a description of the text here, for a message.
    fn found(&self) -> String {
        match self.peek() {
            None => "the end of the file".into(),
            Some('\n') => "the end of the line".into(),
            Some(c) if ends_word(c) => format!("`{}`", printable(&c.to_string())),
            Some(_) => {
                let rest = self.rest();
                let word = rest.split(ends_word).next().unwrap_or_default();
                format!("`{}`", printable(word))
            }
        }
    }

    fn unexpected(&self, expected: impl Into<String>, mend: impl Into<String>) -> Fault {
        Fault::Syntax { at: self.at(), expected: expected.into(), found: self.found(), mend: mend.into() }
    }

    /// Reads characters up to the next separator, and returns them; possibly none.
    fn word(&mut self) -> Scalar {
        let at = self.at();
        self.skip_while(|c| !ends_word(c));
        let text = self.text.get(at.offset..self.position).unwrap_or_default().to_owned();
        Scalar { text, at }
    }

    fn expect_word(&mut self, what: &str, mend: &str) -> Result<Scalar, Fault> {
        self.skip_blank();
        let word = if self.peek() == Some('"') { self.quoted()? } else { self.word() };
        if word.text.is_empty() { Err(self.unexpected(what, mend)) } else { Ok(word) }
    }

    fn quoted(&mut self) -> Result<Scalar, Fault> {
        let at = self.at();
        self.bump();
        let start = self.position;
        self.skip_while(|c| c != '"' && c != '\n');
        if self.peek() != Some('"') {
            return Err(self.unexpected("a closing `\"`", "end the string on the line where it begins"));
        }
        let text = self.text.get(start..self.position).unwrap_or_default().to_owned();
        self.bump();
        Ok(Scalar { text, at })
    }

    fn statement(&mut self, into: &mut Vec<Statement>) -> Result<(), Fault> {
        let word = self.word();
        match word.text.as_str() {
            "" => Err(self.unexpected(
                "a block such as `disksim_disk NAME {`, `source`, `instantiate` or `topology`",
                "look for a bracket too many above",
            )),
            "source" => {
                into.extend(self.sourced(word.at)?);
                Ok(())
            }
            "instantiate" => {
                into.push(self.instantiate()?);
                Ok(())
            }
            "topology" => {
                let node = self.node(0)?;
                into.push(Statement::Topology(node));
                Ok(())
            }
            _ => {
                self.skip_blank();
                let name = if self.peek() == Some('"') { self.quoted()? } else { self.word() };
                self.skip_blank();
                if self.peek() == Some('[') {
                    // A set of components, such as synchronised spindles, which a profile of one drive does not need.
                    self.list(0)?;
                    return Ok(());
                }
                into.push(Statement::Block(self.block(word, name.text, 0)?));
                Ok(())
            }
        }
    }

    fn sourced(&mut self, at: At) -> Result<Vec<Statement>, Fault> {
        let name = self.expect_word("the name of a file", "write `source FILE`")?;
        let file = self.sources.open_sourced(&name.text, at)?;
        let statements = parse(self.sources, file)?;
        self.sources.close();
        Ok(statements)
    }

    /// Reads a sourced file that must have exactly one block, as in `Model = source FILE`, and returns that block.
    fn sourced_block(&mut self, at: At) -> Result<Block, Fault> {
        let mut blocks = self.sourced(at)?.into_iter().filter_map(|statement| match statement {
            Statement::Block(block) => Some(block),
            _ => None,
        });
        match (blocks.next(), blocks.next()) {
            (Some(block), None) => Ok(block),
            (first, _) => Err(Fault::Value {
                at,
                problem: format!(
                    "the sourced file holds {} blocks, and one is needed here",
                    if first.is_some() { "several" } else { "no" }
                ),
                mend: "put exactly one block into the sourced file".into(),
            }),
        }
    }

    /// Parses `instantiate [ disk0, disk1, disk4 .. disk7 ] as SPEC`.
    fn instantiate(&mut self) -> Result<Statement, Fault> {
        self.skip_blank();
        let mut names = Vec::new();
        if self.peek() == Some('[') {
            for item in self.list(0)? {
                if let Value::Scalar(name) = item {
                    names.push(name);
                }
            }
        } else {
            names.push(self.expect_word("`[`", "write `instantiate [ NAME ] as SPEC`")?);
        }
        let names = Instances::new(&names)?;
        self.skip_blank();
        let fault = self.unexpected("`as`", "write `instantiate [ NAME ] as SPEC`");
        if self.word().text != "as" {
            return Err(fault);
        }
        let spec = self.expect_word("the name of a specification", "write `instantiate [ NAME ] as SPEC`")?;
        Ok(Statement::Instantiate { names, spec })
    }

    /// Parses `disksim_bus bus0 [ ... ]`.
    fn node(&mut self, depth: usize) -> Result<Node, Fault> {
        self.check_depth(depth)?;
        let mend = "write `TYPE NAME [ what hangs on it ]`";
        let kind = self.expect_word("the type of a component", mend)?.text;
        let name = self.expect_word("the name of a component", mend)?.text;
        self.skip_blank();
        let mut children = Vec::new();
        if self.peek() == Some('[') {
            self.bump();
            loop {
                self.skip_separators();
                if self.peek() == Some(']') {
                    self.bump();
                    break;
                }
                children.push(self.node(depth + 1)?);
            }
        }
        Ok(Node { kind, name, children })
    }

    fn check_depth(&self, depth: usize) -> Result<(), Fault> {
        if depth < NESTING_LEVELS_MAX {
            return Ok(());
        }
        Err(Fault::Value {
            at: self.at(),
            problem: format!("brackets are nested more than {NESTING_LEVELS_MAX} deep"),
            mend: "look for a missing closing bracket above".into(),
        })
    }

    /// Parses a block from its opening brace on.
    fn block(&mut self, kind: Scalar, name: String, depth: usize) -> Result<Block, Fault> {
        self.check_depth(depth)?;
        if self.peek() != Some('{') {
            return Err(self.unexpected(
                format!("`{{` after `{}`", printable(&kind.text)),
                "a block is written `TYPE NAME { key = value, ... }`",
            ));
        }
        self.bump();
        let mut fields = Vec::new();
        loop {
            self.skip_separators();
            if self.peek() == Some('}') {
                self.bump();
                return Ok(Block { kind: kind.text, name, fields, at: kind.at });
            }
            if self.peek().is_none() {
                let line = self.sources.place(kind.at).line;
                return Err(self.unexpected(
                    format!("`}}` to close `{}` of line {line}", printable(&kind.text)),
                    "add the closing brace; the file may be cut off",
                ));
            }
            fields.push(self.field(depth)?);
        }
    }

    fn field(&mut self, depth: usize) -> Result<Field, Fault> {
        let start = self.position;
        self.skip_while(|c| !matches!(c, '=' | ',' | ';' | '{' | '}' | '[' | ']' | '#' | '"' | '\n'));
        let raw = self.text.get(start..self.position).unwrap_or_default();
        let key = raw.split_whitespace().collect::<Vec<_>>().join(" ");
        if key.is_empty() {
            return Err(self.unexpected("the name of a parameter", "parameters are written `name = value,`"));
        }
        self.skip_blank();
        if self.peek() != Some('=') {
            return Err(self.unexpected(
                format!("`=` after `{}`", printable(&key)),
                "parameters are written `name = value,`",
            ));
        }
        self.bump();
        let value = self.value(&key, depth)?;
        Ok(Field { key, value })
    }

    fn value(&mut self, key: &str, depth: usize) -> Result<Value, Fault> {
        self.skip_blank();
        let at = self.at();
        match self.peek() {
            Some('[') => return Ok(Value::List { items: self.list(depth + 1)?, at }),
            Some('"') => return Ok(Value::Scalar(self.quoted()?)),
            _ => {}
        }
        let first = self.word();
        if first.text.is_empty() {
            return Err(self.unexpected(
                format!("a value for `{}`", printable(key)),
                "write a number, a word, a `[list]` or a block",
            ));
        }
        if first.text == "source" {
            return Ok(Value::Block(self.sourced_block(first.at)?));
        }
        let mut words = vec![first.text.clone()];
        loop {
            self.skip_on_line();
            let more = self.word();
            if more.text.is_empty() {
                break;
            }
            words.push(more.text);
        }
        if matches!(self.peek(), Some('=' | '[' | '"')) {
            return Err(self.unexpected(
                format!("`,` after the value of `{}`", printable(key)),
                "end each parameter with a comma",
            ));
        }
        if self.block_follows() {
            let name = words.get(1).cloned().unwrap_or_default();
            return Ok(Value::Block(self.block(first, name, depth + 1)?));
        }
        Ok(Value::Scalar(Scalar { text: words.join(" "), at: first.at }))
    }

    /// Returns whether an opening brace follows, possibly on a later line. If one follows, moves to it.
    fn block_follows(&mut self) -> bool {
        let back = self.position;
        self.skip_blank();
        let follows = self.peek() == Some('{');
        if !follows {
            self.position = back;
        }
        follows
    }

    /// Parses a list from its opening bracket on; items are separated by commas or blanks.
    fn list(&mut self, depth: usize) -> Result<Vec<Value>, Fault> {
        self.check_depth(depth)?;
        let opened = self.at();
        self.bump();
        let mut items = Vec::new();
        loop {
            self.skip_separators();
            match self.peek() {
                Some(']') => {
                    self.bump();
                    return Ok(items);
                }
                Some('[') => {
                    let at = self.at();
                    items.push(Value::List { items: self.list(depth + 1)?, at });
                    continue;
                }
                Some('"') => {
                    items.push(Value::Scalar(self.quoted()?));
                    continue;
                }
                _ => {}
            }
            let word = self.word();
            if word.text.is_empty() {
                let line = self.sources.place(opened).line;
                return Err(self.unexpected(
                    format!("`]` to close the list of line {line}, or another item"),
                    "add the closing bracket",
                ));
            }
            if word.text == "source" {
                items.push(Value::Block(self.sourced_block(word.at)?));
            } else if word.text.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                items.push(self.word_or_block(word, depth)?);
            } else {
                items.push(Value::Scalar(word));
            }
        }
    }

    /// Parses a word in a list: either an item by itself, or the type of a block, whose name may follow.
    fn word_or_block(&mut self, word: Scalar, depth: usize) -> Result<Value, Fault> {
        if self.block_follows() {
            return Ok(Value::Block(self.block(word, String::new(), depth + 1)?));
        }
        let back = self.position;
        self.skip_on_line();
        let name = self.word();
        if !name.text.is_empty() && self.block_follows() {
            return Ok(Value::Block(self.block(word, name.text, depth + 1)?));
        }
        self.position = back;
        Ok(Value::Scalar(word))
    }
}
