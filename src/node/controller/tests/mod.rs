mod cluster;
mod frames;
mod log;
mod operator;
mod process;
mod recovery;
mod vectors;
