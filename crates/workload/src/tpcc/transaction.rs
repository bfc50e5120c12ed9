//! The five transactions, as sequences of page accesses.

use super::tables::{CUSTOMERS, DISTRICTS, ITEMS, LINES, ORDERS, ORDERS_ROOM, Table, Tables, UNDELIVERED};
use crate::random::{Share, Stream};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use units::Duration;

/// TPC-C's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionKind {
    /// A customer orders 5 to 15 items: 45%.
    NewOrder,
    /// A customer pays: 43%.
    Payment,
    /// A query for the status of a customer's last order: 4%.
    OrderStatus,
    /// The oldest order of each district is delivered: 4%.
    Delivery,
    /// A query for those items of a district's last 20 orders that run out: 4%.
    StockLevel,
}

impl TransactionKind {
    /// All kinds, in the order of the specification.
    pub const ALL: [Self; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// Returns the share of transactions, in percent: the least that clause 5.2.3 allows, except for the first kind.
    pub const fn percent(self) -> u64 {
        match self {
            Self::NewOrder => 45,
            Self::Payment => 43,
            Self::OrderStatus | Self::Delivery | Self::StockLevel => 4,
        }
    }

    /// Returns the time to key in the transaction (clause 5.2.5.7).
    pub const fn keying(self) -> Duration {
        Duration::from_secs(match self {
            Self::NewOrder => 18,
            Self::Payment => 3,
            Self::OrderStatus | Self::Delivery | Self::StockLevel => 2,
        })
    }

    /// Returns the mean think time after the transaction (clause 5.2.5.7); the times are exponentially distributed,
    /// and at most ten times the mean.
    pub const fn think(self) -> Duration {
        Duration::from_secs(match self {
            Self::NewOrder | Self::Payment => 12,
            Self::OrderStatus => 10,
            Self::Delivery | Self::StockLevel => 5,
        })
    }

    pub(crate) fn draw(stream: &mut Stream) -> Self {
        let mut left = uniform(stream, 0, 99);
        for kind in Self::ALL {
            match left.checked_sub(kind.percent()) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        Self::StockLevel
    }
}

/// The skewed distribution of clause 2.1.6: NURand(A, x, y) = (((random(0, A) | random(x, y)) + C) % (y - x + 1)) + x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nurand {
    a: u64,
    low: u64,
    high: u64,
    c: u64,
}

impl Nurand {
    /// Returns the distribution of last names, from 0 to 999.
    pub const fn last_name(c: u64) -> Self {
        Self { a: 255, low: 0, high: 999, c }
    }

    /// Returns the distribution of customers, from 1 to 3,000.
    pub const fn customer(c: u64) -> Self {
        Self { a: 1_023, low: 1, high: CUSTOMERS as u64, c }
    }

    /// Returns the distribution of items, from 1 to 100,000.
    pub const fn item(c: u64) -> Self {
        Self { a: 8_191, low: 1, high: ITEMS as u64, c }
    }

    /// Returns the next number; takes two draws.
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        let Self { a, low, high, c } = *self;
        let or = uniform(stream, 0, a) | uniform(stream, low, high);
        (or + c) % (high - low + 1) + low
    }
}

/// Returns a uniform whole number from `low` to `high`, both included.
pub(crate) fn uniform(stream: &mut Stream, low: u64, high: u64) -> u64 {
    low + stream.below(NonZeroU64::MIN.saturating_add(high.saturating_sub(low)))
}

/// One access to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) page: u64,
    /// Whether the page is changed.
    pub(crate) change: bool,
    /// Whether the page is new, so that it need not be read.
    pub(crate) fresh: bool,
}

/// The warehouse and district of a terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    /// The warehouse, from 0.
    pub(crate) warehouse: u32,
    /// The district, from 0; only the stock level uses it.
    pub(crate) district: u32,
}

#[derive(Clone, Debug)]
struct Orders {
    /// The number of the next order, from 0.
    next: u64,
    /// The oldest order that is not delivered.
    undelivered: u64,
    /// The items of the last 20 orders, the oldest first.
    items: VecDeque<Vec<u32>>,
}

/// The number of orders that the stock level reads.
const LAST_ORDERS: u64 = 20;

/// The contents of the database that transactions depend on: numbers of orders, and the items of the last ones.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    tables: Tables,
    seed: u64,
    warehouses: u32,
    names: Nurand,
    customers: Nurand,
    items: Nurand,
    /// Districts with more orders than at the start, by their number over all warehouses.
    orders: BTreeMap<u64, Orders>,
    payments: u64,
}

impl Database {
    pub(crate) fn new(tables: Tables, warehouses: u32, seed: u64) -> Self {
        let mut constants = Stream::new(seed, "workload.tpcc.constants");
        Self {
            tables,
            seed,
            warehouses,
            names: Nurand::last_name(uniform(&mut constants, 0, 255)),
            customers: Nurand::customer(uniform(&mut constants, 0, 1_023)),
            items: Nurand::item(uniform(&mut constants, 0, 8_191)),
            orders: BTreeMap::new(),
            payments: 0,
        }
    }

    pub(crate) const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns the accesses of a transaction, in order; random numbers are drawn from `stream`.
    pub(crate) fn transaction(
        &mut self,
        kind: TransactionKind,
        home: Home,
        stream: &mut Stream,
    ) -> Vec<Touch> {
        let mut touches = Vec::new();
        match kind {
            TransactionKind::NewOrder => self.new_order(home, stream, &mut touches),
            TransactionKind::Payment => self.payment(home, stream, &mut touches),
            TransactionKind::OrderStatus => self.order_status(home, stream, &mut touches),
            TransactionKind::Delivery => self.delivery(home, stream, &mut touches),
            TransactionKind::StockLevel => self.stock_level(home, &mut touches),
        }
        touches
    }

    fn read(&self, table: Table, row: u64) -> Touch {
        Touch { page: self.tables.page(table, row), change: false, fresh: false }
    }

    fn change(&self, table: Table, row: u64) -> Touch {
        Touch { change: true, ..self.read(table, row) }
    }

    fn insert(&self, table: Table, row: u64) -> Touch {
        Touch { fresh: self.tables.begins_page(table, row), ..self.change(table, row) }
    }

    /// Appends the accesses of a new order (clause 2.4). One order in a hundred names a nonexistent item, and is
    /// rolled back: it reads, and changes nothing.
    fn new_order(&mut self, home: Home, stream: &mut Stream, touches: &mut Vec<Touch>) {
        let district = district(home.warehouse, some_district(stream));
        let customer = self.customers.sample(stream) - 1;
        let lines = uniform(stream, 5, 15);
        let rolled_back = stream.chance(percent(1));
        let items: Vec<(u64, u64)> = (0..lines)
            .map(|_| {
                let item = self.items.sample(stream) - 1;
                let remote = stream.chance(percent(1));
                let from = if remote { self.other_warehouse(home.warehouse, stream) } else { home.warehouse };
                (item, u64::from(from) * u64::from(ITEMS) + item)
            })
            .collect();
        touches.push(self.read(Table::Warehouse, home.warehouse.into()));
        if rolled_back {
            touches.push(self.read(Table::District, district));
            touches.push(self.read(Table::Customer, district * u64::from(CUSTOMERS) + customer));
            for &(item, stock) in items.split_last().map_or(&[][..], |(_, found)| found) {
                touches.push(self.read(Table::Item, item));
                touches.push(self.read(Table::Stock, stock));
            }
            return;
        }
        let orders = self.orders(district);
        let order = orders.next;
        orders.next += 1;
        orders.items.pop_front();
        orders.items.push_back(items.iter().map(|&(item, _)| item as u32).collect());
        touches.push(self.change(Table::District, district));
        touches.push(self.read(Table::Customer, district * u64::from(CUSTOMERS) + customer));
        touches.push(self.insert(Table::Order, order_row(district, order)));
        touches.push(self.insert(Table::NewOrder, order_row(district, order)));
        for (line, (item, stock)) in (0..).zip(items) {
            touches.push(self.read(Table::Item, item));
            touches.push(self.change(Table::Stock, stock));
            touches.push(self.insert(Table::OrderLine, line_row(district, order, line)));
        }
    }

    /// Appends the accesses of a payment (clause 2.5). 15% of the customers are of another warehouse.
    fn payment(&mut self, home: Home, stream: &mut Stream, touches: &mut Vec<Touch>) {
        let paid = district(home.warehouse, some_district(stream));
        let away = self.warehouses > 1 && stream.chance(percent(15));
        let of = if away {
            district(self.other_warehouse(home.warehouse, stream), some_district(stream))
        } else {
            paid
        };
        touches.push(self.change(Table::Warehouse, home.warehouse.into()));
        touches.push(self.change(Table::District, paid));
        let customer = self.some_customer(of, stream, touches);
        touches.push(self.change(Table::Customer, customer));
        touches.push(self.insert(Table::History, self.payments));
        self.payments += 1;
    }

    /// Appends the accesses of an order status (clause 2.6). The customer's last order is drawn from the district's
    /// last 3,000, the number of its customers.
    fn order_status(&mut self, home: Home, stream: &mut Stream, touches: &mut Vec<Touch>) {
        let district = district(home.warehouse, some_district(stream));
        let customer = self.some_customer(district, stream, touches);
        touches.push(self.read(Table::Customer, customer));
        let next = self.orders(district).next;
        let order = next - 1 - uniform(stream, 0, u64::from(ORDERS) - 1);
        let lines = uniform(stream, 5, 15);
        touches.push(self.read(Table::Order, order_row(district, order)));
        touches.extend((0..lines).map(|line| self.read(Table::OrderLine, line_row(district, order, line))));
    }

    /// Appends the accesses of a delivery (clause 2.7), without the queue of the specification. The customer of a
    /// delivered order is drawn as for a new order.
    fn delivery(&mut self, home: Home, stream: &mut Stream, touches: &mut Vec<Touch>) {
        for d in 0..DISTRICTS {
            let district = district(home.warehouse, d);
            let customer = self.customers.sample(stream) - 1;
            let lines = uniform(stream, 5, 15);
            let orders = self.orders(district);
            let order = orders.undelivered.max(orders.next.saturating_sub(u64::from(ORDERS_ROOM)));
            if order == orders.next {
                continue;
            }
            orders.undelivered = order + 1;
            touches.push(self.change(Table::NewOrder, order_row(district, order)));
            touches.push(self.change(Table::Order, order_row(district, order)));
            touches.extend(
                (0..lines).map(|line| self.change(Table::OrderLine, line_row(district, order, line))),
            );
            touches.push(self.change(Table::Customer, district * u64::from(CUSTOMERS) + customer));
        }
    }

    /// Appends the accesses of a stock level (clause 2.8): the stock of every item of the last 20 orders.
    fn stock_level(&mut self, home: Home, touches: &mut Vec<Touch>) {
        let district = district(home.warehouse, home.district);
        let orders = self.orders(district);
        let next = orders.next;
        let mut items: Vec<u32> = orders.items.iter().flatten().copied().collect();
        touches.push(self.read(Table::District, district));
        for order in next - LAST_ORDERS..next {
            // All lines of the order lie between the two that are read here.
            touches.push(self.read(Table::OrderLine, line_row(district, order, 0)));
            touches.push(self.read(Table::OrderLine, line_row(district, order, u64::from(LINES) - 1)));
        }
        items.sort_unstable();
        items.dedup();
        let first = u64::from(home.warehouse) * u64::from(ITEMS);
        touches.extend(items.into_iter().map(|item| self.read(Table::Stock, first + u64::from(item))));
    }

    /// Returns a customer of a district: in 60 of 100 cases by last name, which reads the index. Every name has three
    /// customers (the specification's mean), of which one is drawn at random.
    fn some_customer(&self, district: u64, stream: &mut Stream, touches: &mut Vec<Touch>) -> u64 {
        let customers = u64::from(CUSTOMERS);
        let customer = if stream.chance(percent(60)) {
            let name = self.names.sample(stream);
            touches.push(self.read(Table::CustomerName, district * customers + name * 3));
            name + 1_000 * uniform(stream, 0, 2)
        } else {
            self.customers.sample(stream) - 1
        };
        district * customers + customer
    }

    fn other_warehouse(&self, home: u32, stream: &mut Stream) -> u32 {
        if self.warehouses < 2 {
            return home;
        }
        let other = uniform(stream, 0, u64::from(self.warehouses) - 2) as u32;
        other + u32::from(other >= home)
    }

    fn orders(&mut self, district: u64) -> &mut Orders {
        let seed = self.seed;
        self.orders.entry(district).or_insert_with(|| {
            // Clause 4.3.3.1: the items of the orders that exist at the start are uniform.
            let mut stream = Stream::numbered(seed, "workload.tpcc.orders", district);
            let items = (0..LAST_ORDERS)
                .map(|_| {
                    let lines = uniform(&mut stream, 5, 15);
                    (0..lines).map(|_| uniform(&mut stream, 0, u64::from(ITEMS) - 1) as u32).collect()
                })
                .collect();
            Orders { next: ORDERS.into(), undelivered: u64::from(ORDERS - UNDELIVERED), items }
        })
    }
}

/// Returns a district's number over all warehouses.
fn district(warehouse: u32, district: u32) -> u64 {
    u64::from(warehouse) * u64::from(DISTRICTS) + u64::from(district)
}

fn some_district(stream: &mut Stream) -> u32 {
    uniform(stream, 0, u64::from(DISTRICTS) - 1) as u32
}

/// Returns the row of an order. The orders of a district lie together; a new order takes the place of the oldest.
fn order_row(district: u64, order: u64) -> u64 {
    district * u64::from(ORDERS_ROOM) + order % u64::from(ORDERS_ROOM)
}

/// Returns the row of a line. The lines of an order lie behind those of the order before, as if every order had ten.
fn line_row(district: u64, order: u64, line: u64) -> u64 {
    order_row(district, order) * u64::from(LINES) + line
}

fn percent(n: u64) -> Share {
    Share::new(n, 100).unwrap_or(Share::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::TpccConfig;
    use units::{Bytes, Sectors};

    const N: usize = 100_000;

    /// Returns a database of ten warehouses.
    fn database() -> Database {
        let config = TpccConfig::new(Sectors::new(3_680_000_000 / 512 + 16), Bytes::new(512));
        assert_eq!(config.warehouses, 10);
        Database::new(Tables::new(&config).unwrap(), config.warehouses, 1)
    }

    fn tables(touches: &[Touch], database: &Database) -> Vec<(Table, bool)> {
        touches.iter().map(|t| (database.tables.table(t.page).unwrap(), t.change)).collect()
    }

    const HOME: Home = Home { warehouse: 3, district: 4 };

    #[test]
    fn the_mix_is_the_specifications() {
        let mut stream = Stream::new(1, "test");
        let mut counts = [0usize; 5];
        for _ in 0..N {
            counts[TransactionKind::draw(&mut stream) as usize] += 1;
        }
        for (kind, count) in TransactionKind::ALL.into_iter().zip(counts) {
            let (p, share) = (kind.percent() as f64 / 100.0, count as f64 / N as f64);
            // Five standard errors.
            assert!((share - p).abs() < 5.0 * (p * (1.0 - p) / N as f64).sqrt(), "{kind:?}: {share}");
        }
        assert_eq!(TransactionKind::ALL.map(TransactionKind::percent).iter().sum::<u64>(), 100);
    }

    /// Compares draws with the definition, summed over all pairs of its two uniform draws.
    #[test]
    fn nurand_has_the_histogram_of_its_definition() {
        for (nurand, a, low, high) in
            [(Nurand::last_name(77), 255u64, 0u64, 999u64), (Nurand::customer(259), 1_023, 1, 3_000)]
        {
            let mut expected = vec![0.0; (high - low + 1) as usize];
            let each = 1.0 / ((a + 1) * (high - low + 1)) as f64;
            for x in 0..=a {
                for y in low..=high {
                    expected[(((x | y) + nurand.c) % (high - low + 1)) as usize] += each;
                }
            }
            let mut counts = vec![0usize; expected.len()];
            let mut stream = Stream::new(2, "test");
            let n = 20 * N;
            for _ in 0..n {
                counts[(nurand.sample(&mut stream) - low) as usize] += 1;
            }
            // Chi squared: its mean is the degrees of freedom, its variance twice that; five deviations.
            let (mut chi, mut freedom) = (0.0f64, -1.0f64);
            for (p, count) in expected.iter().zip(counts) {
                let mean = p * n as f64;
                if mean > 5.0 {
                    chi += (count as f64 - mean).powi(2) / mean;
                    freedom += 1.0;
                }
            }
            assert!((chi - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(), "{chi} {freedom}");
        }
    }

    #[test]
    fn a_new_order_changes_a_stock_and_adds_a_line_for_each_item() {
        let mut database = database();
        let mut stream = Stream::new(3, "test");
        let mut rolled_back = 0;
        for _ in 0..2_000 {
            let touches = database.transaction(TransactionKind::NewOrder, HOME, &mut stream);
            let tables = tables(&touches, &database);
            let count = |of| tables.iter().filter(|&&t| t == of).count();
            if count((Table::District, true)) == 0 {
                rolled_back += 1;
                assert!(tables.iter().all(|t| !t.1));
                continue;
            }
            let lines = count((Table::OrderLine, true));
            assert!((5..=15).contains(&lines));
            assert_eq!(count((Table::Item, false)), lines);
            assert_eq!(count((Table::Stock, true)), lines);
            for one in [(Table::Warehouse, false), (Table::District, true), (Table::Customer, false)] {
                assert_eq!(count(one), 1);
            }
            assert_eq!(count((Table::Order, true)) + count((Table::NewOrder, true)), 2);
            assert_eq!(touches.len(), 5 + 3 * lines);
        }
        // 1% of 2,000, to five standard errors.
        assert!((1..=42).contains(&rolled_back), "{rolled_back}");
    }

    #[test]
    fn a_payment_changes_four_rows_and_reads_the_index_in_three_of_five() {
        let mut database = database();
        let mut stream = Stream::new(4, "test");
        let (mut by_name, mut away) = (0, 0);
        for n in 0..5_000u64 {
            let touches = database.transaction(TransactionKind::Payment, HOME, &mut stream);
            let tables = tables(&touches, &database);
            let named = tables.contains(&(Table::CustomerName, false));
            by_name += u64::from(named);
            let changed: Vec<Table> = tables.iter().filter(|t| t.1).map(|t| t.0).collect();
            assert_eq!(changed, [Table::Warehouse, Table::District, Table::Customer, Table::History]);
            assert_eq!(touches.last().unwrap().page, database.tables.page(Table::History, n));
            let home = |d: u64| d * u64::from(CUSTOMERS);
            let first = database.tables.page(Table::Customer, home(30));
            let last = database.tables.page(Table::Customer, home(40) - 1);
            let customer = touches[touches.len() - 2].page;
            away += u64::from(!(first..=last).contains(&customer));
        }
        assert!((by_name as f64 / 5_000.0 - 0.60).abs() < 0.035, "{by_name}");
        assert!((away as f64 / 5_000.0 - 0.15).abs() < 0.026, "{away}");
    }

    #[test]
    fn a_delivery_takes_the_oldest_order_of_each_district_and_an_order_status_only_reads() {
        let mut database = database();
        let mut stream = Stream::new(5, "test");
        for n in 0..=u64::from(UNDELIVERED) {
            let touches = database.transaction(TransactionKind::Delivery, HOME, &mut stream);
            let oldest = u64::from(ORDERS - UNDELIVERED) + n;
            let page = database.tables.page(Table::NewOrder, order_row(30, oldest));
            // 900 orders wait to be delivered, and then none.
            assert_eq!(touches.first().map(|t| t.page), (n < UNDELIVERED.into()).then_some(page));
        }
        for _ in 0..1_000 {
            let touches = database.transaction(TransactionKind::OrderStatus, HOME, &mut stream);
            assert!(touches.iter().all(|t| !t.change && !t.fresh));
        }
    }

    #[test]
    fn a_stock_level_reads_the_stock_of_the_last_twenty_orders() {
        let mut database = database();
        let mut stream = Stream::new(6, "test");
        let before = database.transaction(TransactionKind::StockLevel, HOME, &mut stream);
        // Some 200 items of 100,000, nearly all of them different; a district and 40 accesses to lines.
        assert!((141..=341).contains(&before.len()), "{}", before.len());
        for _ in 0..1_000 {
            database.transaction(TransactionKind::NewOrder, HOME, &mut stream);
        }
        let after = database.transaction(TransactionKind::StockLevel, HOME, &mut stream);
        let items = database.orders[&34].items.iter().flatten();
        let pages: Vec<u64> =
            items.map(|&i| database.tables.page(Table::Stock, 3 * u64::from(ITEMS) + u64::from(i))).collect();
        assert_eq!(database.orders[&34].items.len(), 20);
        assert!(after[41..].iter().all(|t| pages.contains(&t.page)));
        assert!(pages.iter().all(|&page| after[41..].iter().any(|t| t.page == page)));
    }
}
