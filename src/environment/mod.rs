//! Host facts and the directory's own floor.
