//! One replica: consensus, cell and master joined into one deterministic step function
