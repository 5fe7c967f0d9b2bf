mod cluster;
mod frames;
mod log;
mod process;
