//! The log as a whole, on real files.

mod bench;
mod commits;
mod crashes;
mod cuts;
mod disk;
mod faults;
mod reads;
mod recoveries;
mod segments;
mod stored;
