//! The load driver.
